/* Burns CPU time for MILLISECONDS of its CPU clock, or until SIGTERM, and counts its own cycles meanwhile.
 * usage: cycles [MILLISECONDS]
 * Prints "ready", then at the end "cycles N task-clock-ns N wall-ns N". */
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void end(int number)
{
	ended = number;
}

static int count(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static uint64_t value(int event)
{
	uint64_t words[3]; /* the value, how long it was enabled, how long it counted */

	if (read(event, words, sizeof(words)) != sizeof(words) || !words[2])
		return 0;
	return (uint64_t)((double)words[0] * (double)words[1] / (double)words[2]);
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t limit = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000 : UINT64_MAX;
	uint64_t begun = now(CLOCK_MONOTONIC);
	int cycles = count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	int clock = count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
	volatile uint64_t sum = 0;

	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!ended && now(CLOCK_PROCESS_CPUTIME_ID) < limit)
		for (int i = 0; i < 10000; i++)
			sum += (uint64_t)i;
	if (cycles < 0 || clock < 0)
		return 1;
	printf("cycles %llu task-clock-ns %llu wall-ns %llu\n", (unsigned long long)value(cycles),
	       (unsigned long long)value(clock), (unsigned long long)(now(CLOCK_MONOTONIC) - begun));
	return 0;
}
