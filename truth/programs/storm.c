/* Threads in a ring that wake each other with futexes: tokens go round, and each hand-over is a wake-up and a wait.
 * usage: storm [THREADS [TOKENS]]
 * Prints every 50 ms a line "count HANDOVERS SECONDS": hand-overs so far, and the time in seconds at which they were counted.
 * Truth: thread start, member, hand_over, (wait_turn | wake_next), syscall in libc. */
#include "metered.h"

#include <linux/futex.h>
#include <sys/syscall.h>

enum { MOST = 1024 };

static struct place {
	int tokens;
	unsigned long handed;
	int unused[12];
} ring[MOST];
static long members;

EXACT void wait_turn(struct place *mine)
{
	while (__atomic_load_n(&mine->tokens, __ATOMIC_ACQUIRE) == 0)
		syscall(SYS_futex, &mine->tokens, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	__atomic_fetch_sub(&mine->tokens, 1, __ATOMIC_ACQ_REL);
}

EXACT void wake_next(struct place *next)
{
	__atomic_fetch_add(&next->tokens, 1, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, &next->tokens, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	NO_TAIL_CALL;
}

EXACT void hand_over(long index)
{
	wait_turn(&ring[index]);
	ring[index].handed++;
	wake_next(&ring[(index + 1) % members]);
	NO_TAIL_CALL;
}

EXACT void *member(void *index)
{
	for (;;) {
		hand_over((long)index);
		NO_TAIL_CALL;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	members = argument(argc, argv, 1, 64);
	long tokens = argument(argc, argv, 2, 4);

	if (members < 1 || members > MOST || tokens >= members)
		return 2;
	for (long i = 0; i < tokens; i++)
		ring[i * members / tokens].tokens = 1;
	for (long i = 0; i < members; i++)
		thread_start(member, (void *)i);
	ready();
	for (;;) {
		unsigned long sum = 0;
		sleep_us(50000);
		for (long i = 0; i < members; i++)
			sum += __atomic_load_n(&ring[i].handed, __ATOMIC_RELAXED);
		printf("count %lu %.6f\n", sum, (double)clock_ns(CLOCK_MONOTONIC) / 1e9);
		fflush(stdout);
	}
}
