/* Threads that live for one short sleep: eight at a time, and the next eight when these have ended.
 * usage: mayflies MILLISECONDS
 * Ends by itself after that time and prints "threads NUMBER" and "site site_nap WALL CPU VOLUNTARY INVOLUNTARY", the sums over
 * all threads: wall-clock time and CPU time inside site_nap in ns, and switches there.
 * Truth: thread start, short_life, site_nap, nanosleep in libc. */
#include "metered.h"

enum { AT_ONCE = 8 };

static struct meter naps;

EXACT void site_nap(void)
{
	sleep_us(2000);
	NO_TAIL_CALL;
}

EXACT void *short_life(void *unused)
{
	struct meter begun = meter_now();
	site_nap();
	meter_add(&naps, begun);
	meter_close();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[AT_ONCE];
	unsigned long count = 0;

	ready();
	unsigned long end_ns = clock_ns(CLOCK_MONOTONIC) + (unsigned long)argument(argc, argv, 1, 3000) * 1000000;
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		for (int i = 0; i < AT_ONCE; i++)
			threads[i] = thread_start(short_life, NULL);
		for (int i = 0; i < AT_ONCE; i++)
			pthread_join(threads[i], NULL);
		count += AT_ONCE;
	}
	printf("threads %lu\n", count);
	meter_print("site", "site_nap", &naps);
	return 0;
}
