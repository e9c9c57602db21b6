/* Processes that preempt each other on one CPU while each hits a probe as often as it can.
 * usage: preempted SECONDS
 * `left` and `right` are busy; `above`, of a real-time class, wakes up a thousand times in a second and hits the probe ten times. After five
 * seconds, in which a profiler gets to know them, they work for SECONDS; the last line is "hits N", the calls of `hit` of all together.
 * Truth: left_main, left_chain 20 times, hit; right_main, right_chain 33 times, hit; above_main, above_chain 7 times, hit. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "truth.h"

#define LEFT_FRAMES 20
#define RIGHT_FRAMES 33
#define ABOVE_FRAMES 7

static volatile double end;
static volatile long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Begins with a push, which the kernel emulates. */
EXACT long hit(long number)
{
	long kept = number;
	__asm__ volatile("" : "+r"(kept)::"rbx");
	NO_TAIL_CALL;
	return kept;
}

/* One hit at the end of each chain. */
#define CHAIN(side)                                                                                                                \
	EXACT void side##_chain(long frames)                                                                                       \
	{                                                                                                                          \
		if (frames > 1)                                                                                                    \
			side##_chain(frames - 1);                                                                                  \
		else                                                                                                               \
			sink += hit(frames);                                                                                       \
		NO_TAIL_CALL;                                                                                                      \
	}

CHAIN(left)
CHAIN(right)
CHAIN(above)

EXACT long left_main(void)
{
	long hits = 0;
	for (; now() < end; hits++)
		left_chain(LEFT_FRAMES);
	return hits;
}

EXACT long right_main(void)
{
	long hits = 0;
	for (; now() < end; hits++)
		right_chain(RIGHT_FRAMES);
	return hits;
}

EXACT long above_main(void)
{
	struct sched_param highest = { .sched_priority = 50 };
	struct timespec pause = { .tv_nsec = 1000000 };
	long hits = 0;
	if (sched_setscheduler(0, SCHED_FIFO, &highest))
		perror("sched_setscheduler");
	while (now() < end) {
		for (int i = 0; i < 10; i++, hits++)
			above_chain(ABOVE_FRAMES);
		nanosleep(&pause, NULL);
	}
	return hits;
}

int main(int argc, char **argv)
{
	static long (*const mains[])(void) = { left_main, right_main, above_main };
	enum { PROCESSES = sizeof(mains) / sizeof(*mains) };
	volatile long *hits = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long seconds = argument(argc, argv, 1, 60), sum = 0;
	cpu_set_t first;

	if (hits == MAP_FAILED)
		return 1;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		return 1;
	ready();
	for (int i = 0; i < PROCESSES; i++) {
		if (fork())
			continue;
		sleep(5);
		/* The first one ends before the others. */
		end = now() + seconds * (i ? 1 : 0.5);
		hits[i] = mains[i]();
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < PROCESSES; i++) {
		printf("process %d: %ld\n", i, hits[i]);
		sum += hits[i];
	}
	printf("hits %ld\n", sum);
	return 0;
}
