/* SPDX-License-Identifier: Apache-2.0 */
/* As a library (LIBRARY): a function that computes for a moment. As a program: loads the libraries that its other words name, says so, and
 * calls their functions in turn: for so many milliseconds each if the first word is not 0, and again and again if it is `always`. Then it
 * waits to be killed. */
#ifdef LIBRARY

unsigned compute(unsigned turns)
{
	volatile unsigned sum = 0;

	while (turns--)
		sum += turns;
	return sum;
}

#else

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIBRARIES 512

int main(int count, char **words)
{
	unsigned (*compute[LIBRARIES])(unsigned);
	int at, libraries = 0, always = count > 1 && !strcmp(words[1], "always");
	clock_t end;

	for (at = 2; at < count && libraries < LIBRARIES; at++) {
		void *library = dlopen(words[at], RTLD_NOW);

		if (!library)
			return 1;
		compute[libraries] = (unsigned (*)(unsigned))dlsym(library, "compute");
		if (!compute[libraries++])
			return 2;
	}
	puts("loaded");
	fflush(stdout);
	do {
		for (at = 0; at < libraries; at++)
			for (end = clock() + CLOCKS_PER_SEC / 100; clock() < end;)
				compute[at](1000000);
	} while (always);
	pause();
	return 0;
}

#endif
