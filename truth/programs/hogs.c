/* Two threads that only compute, pinned to one CPU: they preempt each other all the time.
 * usage: hogs MILLISECONDS [wait]
 * Each thread ends by itself after that time (with "wait": both start with the runner's line). Prints one line "life NAME
 * WALL CPU VOLUNTARY INVOLUNTARY" per thread: wall-clock time and CPU time of its life in ns, and its switches; and a line
 * "process hogs …" with the same figures for the whole process.
 * Truth: thread start, hog_one or hog_two, spin. Time preempted is WALL - CPU, preemptions are INVOLUNTARY. */
#include "metered.h"
#include "spin.h"

static unsigned long length_ns;
static struct meter lives[2];

static void compute(int which, const char *name)
{
	prctl(PR_SET_NAME, name);
	struct meter begun = meter_now();
	/* Each thread runs for the whole length: on a busy machine one may begin much later than the other. */
	while (clock_ns(CLOCK_MONOTONIC) < begun.wall_ns + length_ns) {
		spin(10000);
		NO_TAIL_CALL;
	}
	meter_add(&lives[which], begun);
}

EXACT void *hog_one(void *unused)
{
	compute(0, "hog_one");
	return unused;
}

EXACT void *hog_two(void *unused)
{
	compute(1, "hog_two");
	return unused;
}

int main(int argc, char **argv)
{
	/* Threads inherit it. A thread that pinned itself would have to wait until it is moved. */
	pin(0);
	length_ns = (unsigned long)argument(argc, argv, 1, 5000) * 1000000;
	ready();
	if (argc > 2)
		wait_for_go();
	struct meter begun = process_now();
	pthread_t one = thread_start(hog_one, NULL), two = thread_start(hog_two, NULL);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	meter_print("life", "hog_one", &lives[0]);
	meter_print("life", "hog_two", &lives[1]);
	process_print("hogs", begun);
	return 0;
}
