/* Prints the frequency of this machine's time stamp counter in kHz. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both clocks at one moment: of many readings the one that took the least time, since another process may run in
 * between. */
static void read_both(uint64_t *ticks, uint64_t *ns)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t before = __rdtsc(), time = now_ns(), after = __rdtsc();

		if (after - before < least) {
			least = after - before;
			*ticks = before + least / 2;
			*ns = time;
		}
	}
}

int main(void)
{
	const struct timespec pause = {0, 200000000};
	uint64_t ticks[2], ns[2];

	read_both(&ticks[0], &ns[0]);
	nanosleep(&pause, NULL);
	read_both(&ticks[1], &ns[1]);
	printf("%.0f\n", (double)(ticks[1] - ticks[0]) * 1e6 / (double)(ns[1] - ns[0]));
	return 0;
}
