/* SPDX-License-Identifier: Apache-2.0 */
/* Computes until the end of its input, so that it is known, makes so many processes that sleep, says so, and waits to
 * be killed. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

int main(int count, char **words)
{
	long processes = count > 1 ? atol(words[1]) : 1;
	struct pollfd input = {.fd = 0, .events = POLLIN};

	puts("computes");
	fflush(stdout);
	while (!poll(&input, 1, 0))
		for (volatile unsigned turns = 0; turns < 1000000; turns++)
			;
	while (processes--) {
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	}
	pause();
	return 0;
}
