/* A process that ends while one of its threads is blocked.
 * usage: leaver MILLISECONDS
 * Prints "blocked NANOSECONDS", how long the thread has been blocked so far, and ends.
 * Truth: thread start, stayer, site_forever, read in libc: one wait of that length. */
#include "metered.h"

static int pipe_ends[2];
static unsigned long since_ns;

EXACT void site_forever(void)
{
	char byte;
	__atomic_store_n(&since_ns, clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
	if (read(pipe_ends[0], &byte, 1) < 0)
		_exit(1);
	NO_TAIL_CALL;
}

EXACT void *stayer(void *unused)
{
	site_forever();
	NO_TAIL_CALL;
	return unused;
}

int main(int argc, char **argv)
{
	if (pipe(pipe_ends) < 0)
		return 1;
	ready();
	thread_start(stayer, NULL);
	sleep_us((unsigned long)argument(argc, argv, 1, 1000) * 1000);
	printf("blocked %lu\n", clock_ns(CLOCK_MONOTONIC) - __atomic_load_n(&since_ns, __ATOMIC_ACQUIRE));
	fflush(stdout);
	_exit(0);
}
