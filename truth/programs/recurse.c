/* Recursion through a ring of three functions with different frames.
 * usage: recurse DEPTH ROUNDS
 * Truth: main, descend, DEPTH frames ring_a ring_b ring_c ring_a …, spin. With small ROUNDS the recursion is
 * entered again and again; with large ROUNDS the outer frames stay as they are. With a third argument it prints twenty lines
 * "count N WALL CPU" per second: descents so far, CLOCK_MONOTONIC and the CPU time of the process, both in ns. If that argument is
 * "sweep" it prints nothing, and the last function is sweep, which reads one word of each cache line of 16 MiB in turn. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "spin.h"

long ring_a(long depth, long rounds);
long ring_b(long depth, long rounds);
long ring_c(long depth, long rounds);

#define SWEPT_WORDS (16L << 20 >> 3)
#define WORDS_OF_A_LINE 8

static long swept[SWEPT_WORDS];
static int sweeps;

EXACT long sweep(long rounds)
{
	static long next;
	long sum = 0;
	for (long i = 0; i < rounds; i++) {
		sum += swept[next];
		next = (next + WORDS_OF_A_LINE) % SWEPT_WORDS;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

#define LEAF(rounds) (sweeps ? sweep(rounds) : spin(rounds))

/* Pushes callee-saved registers: four values live across the call. */
EXACT long ring_a(long depth, long rounds)
{
	long w = depth * 3, x = depth ^ 5, y = rounds + 7, z = rounds ^ depth;
	__asm__ volatile("" : "+r"(w), "+r"(x), "+r"(y), "+r"(z));
	long result = depth > 1 ? ring_b(depth - 1, rounds) : LEAF(rounds);
	NO_TAIL_CALL;
	return result + w + x + y + z;
}

/* A buffer on the stack. */
EXACT long ring_b(long depth, long rounds)
{
	volatile char buffer[200];
	buffer[depth % 200] = (char)rounds;
	long result = depth > 1 ? ring_c(depth - 1, rounds) : LEAF(rounds);
	return result + buffer[depth % 200];
}

/* The smallest frame there is. */
EXACT long ring_c(long depth, long rounds)
{
	long result = depth > 1 ? ring_a(depth - 1, rounds) : LEAF(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long descend(long depth, long rounds)
{
	long result = ring_a(depth, rounds);
	NO_TAIL_CALL;
	return result;
}

static long nanoseconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long depth = argument(argc, argv, 1, 36), rounds = argument(argc, argv, 2, 2000);
	if (argc > 3 && !strcmp(argv[3], "sweep")) {
		/* Pages that were never written are all one page. */
		memset(swept, 1, sizeof(swept));
		sweeps = 1;
	}
	ready();
	if (argc <= 3 || sweeps)
		for (;;)
			descend(depth, rounds);
	for (long count = 0, last = 0, now;;) {
		for (int i = 0; i < 16; i++, count++)
			descend(depth, rounds);
		now = nanoseconds(CLOCK_MONOTONIC);
		if (now - last >= 50000000) {
			printf("count %ld %ld %ld\n", count, now, nanoseconds(CLOCK_PROCESS_CPUTIME_ID));
			fflush(stdout);
			last = now;
		}
	}
}
