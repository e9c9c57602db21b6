/*
 * A process that only waits, and below it a relay: each runner computes for a moment, forks the next one and ends. All
 * of them are children of the first process when their parents have ended. The next one says so on standard output.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void compute(long ns)
{
	struct timespec begun, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < ns);
}

static void relay(pid_t first)
{
	for (;;) {
		compute(200000);
		if (kill(first, 0) || fork())
			_exit(0);
		if (getppid() == 1)
			_exit(0);
	}
}

int main(void)
{
	pid_t first = getpid();

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork())
		relay(first);
	puts("begun");
	fflush(stdout);
	for (;;)
		if (wait(NULL) < 0)
			pause();
}
