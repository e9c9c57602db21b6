/* Pairs of processes that pass a byte to and fro through two pipes. Each pair is pinned to one CPU: if nothing else runs
 * there, each pass is a switch.
 * usage: pingpong PAIRS [SWITCHES]
 * SWITCHES: the processes compute between the passes, so that there are about this many switches per second and CPU (default:
 * no computing). The parent prints "partner PID" per pair before it is ready, then every 50 ms a line "count PASSES SECONDS":
 * the passes of all pairs, and the time in seconds at which they were counted.
 * Truth: in the parent thread start, lead, play, (read | write | spin); in the partners main, follow, play, the same. */
#include "metered.h"
#include "spin.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { MOST = 16 };

struct seat {
	int in, out;
	unsigned long passes, unused[6];
};

static struct seat *seats;
static long rounds;

EXACT void play(struct seat *seat)
{
	char byte;
	if (read(seat->in, &byte, 1) != 1)
		_exit(0);
	if (rounds > 0)
		spin(rounds);
	__atomic_store_n(&seat->passes, seat->passes + 1, __ATOMIC_RELAXED);
	if (write(seat->out, &byte, 1) != 1)
		_exit(0);
}

EXACT void follow(int pair)
{
	pin(pair);
	for (;;) {
		play(&seats[2 * pair + 1]);
		NO_TAIL_CALL;
	}
}

EXACT void *lead(void *which)
{
	int pair = (int)(long)which;
	pin(pair);
	if (write(seats[2 * pair].out, "", 1) != 1)
		_exit(1);
	for (;;) {
		play(&seats[2 * pair]);
		NO_TAIL_CALL;
	}
	return NULL;
}

static void seat_pair(int pair)
{
	int to[2], fro[2];
	if (pipe(to) < 0 || pipe(fro) < 0)
		exit(1);
	seats[2 * pair].in = fro[0];
	seats[2 * pair].out = to[1];
	seats[2 * pair + 1].in = to[0];
	seats[2 * pair + 1].out = fro[1];
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		follow(pair);
	}
	printf("partner %d\n", pid);
}

static unsigned long passes(int pairs)
{
	unsigned long sum = 0;
	for (int i = 0; i < 2 * pairs; i++)
		sum += __atomic_load_n(&seats[i].passes, __ATOMIC_RELAXED);
	return sum;
}

int main(int argc, char **argv)
{
	int pairs = (int)argument(argc, argv, 1, 1);
	long wanted = argument(argc, argv, 2, 0);

	if (pairs < 1 || pairs > MOST)
		return 2;
	seats = mmap(NULL, sizeof(*seats) * 2 * MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (wanted > 0) {
		/* The pass itself takes about three microseconds; the rest of the time is for computing. */
		unsigned long begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		spin(10000000);
		double ns_per_round = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e7;
		rounds = (long)((1e9 / (double)wanted - 3000) / ns_per_round);
	}
	for (int i = 0; i < pairs; i++)
		seat_pair(i);
	fflush(stdout);
	for (int i = 0; i < pairs; i++)
		thread_start(lead, (void *)(long)i);
	ready();
	for (;;) {
		sleep_us(50000);
		printf("count %lu %.6f\n", passes(pairs), (double)clock_ns(CLOCK_MONOTONIC) / 1e9);
		fflush(stdout);
	}
}
