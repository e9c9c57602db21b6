/* One thread that wakes up every millisecond, at absolute times.
 * usage: pacer MILLISECONDS CPU [wait]
 * Ends by itself after that time (with "wait": counted from the runner's line) and prints "process pacer WALL CPU
 * VOLUNTARY INVOLUNTARY" and "faults NUMBER": wall-clock time and CPU time in ns, switches and page faults in that time.
 * Truth: main, pace, the call in libc: as many wake-ups as voluntary switches. */
#include "metered.h"

EXACT void pace(struct timespec *next)
{
	next->tv_nsec += 1000000;
	if (next->tv_nsec >= 1000000000) {
		next->tv_nsec -= 1000000000;
		next->tv_sec++;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	struct timespec next;
	struct rusage before, after;

	pin((int)argument(argc, argv, 2, 0));
	ready();
	if (argc > 3)
		wait_for_go();
	getrusage(RUSAGE_SELF, &before);
	struct meter begun = process_now();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long left = argument(argc, argv, 1, 3000); left > 0; left--) {
		pace(&next);
		NO_TAIL_CALL;
	}
	process_print("pacer", begun);
	getrusage(RUSAGE_SELF, &after);
	printf("faults %ld\n", after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt);
	return 0;
}
