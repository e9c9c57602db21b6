/* Four functions that burn 10, 20, 30 and 40 % of the thread's CPU time.
 * After each burst it reads the thread's CPU clock and adds the burst to its function. The function that lags most behind its
 * share runs next, so at any moment each function is within one burst of its share. Bursts have random lengths from 20 to
 * 200 us, so that they cannot be in step with a sampling period. At SIGTERM the program prints one line
 * "share NAME NANOSECONDS" per function and ends.
 * Truth: main, run, one of burn_10 burn_20 burn_30 burn_40. */
#include <stdio.h>
#include <time.h>

#include "truth.h"

/* Each has its own loop: a profiler that records program counters alone can still distinguish them. */
#define BURN(percent) \
	EXACT long burn_##percent(long rounds) \
	{ \
		long x = rounds; \
		for (long i = 0; i < rounds; i++) { \
			x += i ^ (x << 1) ^ percent; \
			__asm__ volatile("" : "+r"(x)); \
		} \
		return x; \
	}
BURN(10)
BURN(20)
BURN(30)
BURN(40)

static long (*const burn[4])(long) = { burn_10, burn_20, burn_30, burn_40 };
static const double share[4] = { 0.1, 0.2, 0.3, 0.4 };
static double used[4];
static volatile sig_atomic_t stop;

static void on_term(int number)
{
	stop = number;
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

EXACT void run(long rounds)
{
	double last = cpu_ns(), total = 0;
	unsigned long seed = 1;
	while (!stop) {
		int next = 0;
		for (int i = 1; i < 4; i++)
			if (share[i] * total - used[i] > share[next] * total - used[next])
				next = i;
		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		burn[next](rounds * (long)(20 + (seed >> 33) % 181) / 100);
		double now = cpu_ns();
		used[next] += now - last;
		total += now - last;
		last = now;
	}
}

int main(void)
{
	double before = cpu_ns();
	burn_10(1000000);
	long rounds = (long)(1000000 * 100e3 / (cpu_ns() - before));

	signal(SIGTERM, on_term);
	ready();
	run(rounds > 0 ? rounds : 1);
	for (int i = 0; i < 4; i++)
		printf("share burn_%d %.0f\n", (i + 1) * 10, used[i]);
	return 0;
}
