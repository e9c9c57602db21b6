/* Reads the time again and again, through the kernel's vdso.
 * Truth: main, ask, clock_gettime of libc, one or two frames of [vdso]. */
#include <time.h>

#include "truth.h"

EXACT long ask(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_nsec;
}

int main(void)
{
	ready();
	for (;;) {
		for (int i = 0; i < 1000; i++)
			ask();
		NO_TAIL_CALL;
	}
}
