/* Events of one kind, as many as the CPU can make, from one place at the end of a recursion.
 * usage: eventful call|fault|syscall FRAMES
 * call: calls of `work`, which begins with a push. fault: page faults of `touch`, each on a page that was given back. syscall: getppid.
 * Truth: main, descend FRAMES times, and the place. Prints twenty lines "count N WALL CPU" per second: events so far, CLOCK_MONOTONIC
 * and the CPU time of the process, both in ns. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "truth.h"

#define PAGES 64
#define PAGE_BYTES 4096

static char *pages;
static long sum;

/* A value that lives across a call needs a saved register: the function begins with a push. */
EXACT void leaf(void)
{
	NO_TAIL_CALL;
}

EXACT long work(long number)
{
	leaf();
	__asm__ volatile("" : "+r"(number));
	leaf();
	return number;
}

EXACT void touch(long number)
{
	pages[number % PAGES * PAGE_BYTES] = 1;
	NO_TAIL_CALL;
}

static long nanoseconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

EXACT void events(const char *kind)
{
	for (long count = 0, last = 0, now;;) {
		for (int i = 0; i < PAGES * 4; i++, count++) {
			if (*kind == 'c') {
				sum += work(count);
			} else if (*kind == 's') {
				syscall(SYS_getppid);
			} else {
				if (count % PAGES == 0)
					madvise(pages, PAGES * PAGE_BYTES, MADV_DONTNEED);
				touch(count);
			}
		}
		now = nanoseconds(CLOCK_MONOTONIC);
		if (now - last >= 50000000) {
			printf("count %ld %ld %ld\n", count, now, nanoseconds(CLOCK_PROCESS_CPUTIME_ID));
			fflush(stdout);
			last = now;
		}
	}
}

EXACT void descend(const char *kind, long frames)
{
	if (frames > 1)
		descend(kind, frames - 1);
	else
		events(kind);
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "call";
	pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return 1;
	/* A huge page would be one fault for all. */
	madvise(pages, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
	ready();
	descend(kind, argument(argc, argv, 2, 16));
	return 0;
}
