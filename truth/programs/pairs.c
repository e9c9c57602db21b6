/* Allocates and frees, and nothing else: objects of 16 to 80 bytes. Each 50 ms it prints "count PAIRS CPU_NS", both since its start. */
#include <stdio.h>
#include <time.h>

#include "truth.h"

static long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

EXACT void pair(long number)
{
	void *volatile object = malloc(16 + number % 65);

	free(object);
	NO_TAIL_CALL;
}

int main(void)
{
	long pairs = 0, last = clock_ns(CLOCK_MONOTONIC);
	char line[64];

	ready();
	for (;;) {
		for (int i = 0; i < 64; i++)
			pair(pairs++);
		if (clock_ns(CLOCK_MONOTONIC) - last < 50000000)
			continue;
		last = clock_ns(CLOCK_MONOTONIC);
		int length = snprintf(line, sizeof(line), "count %ld %ld\n", pairs, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
		say(line, (unsigned long)length);
	}
}
