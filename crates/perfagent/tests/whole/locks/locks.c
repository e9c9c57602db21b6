/* Waits for a read-write lock that a sleeping thread has for itself, and for words by calls that the C library does not use. It begins
 * when it reads a byte, and prints the number of waits for words, 0 where the kernel lacks a call. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FUTEX_WAITV 449
#define FUTEX_WAKE 454
#define FUTEX_WAIT 455
#define FUTEX2_U32_PRIVATE 0x82

static pthread_rwlock_t table;
static pthread_barrier_t has_it, round_ends;
/* Nobody wakes the third one: a word of which a late thread still waits must not be woken for the next round. */
static unsigned int word_one, word_two, word_never;

static void sleep_us(long us)
{
	struct timespec moment = {.tv_nsec = us * 1000};

	nanosleep(&moment, NULL);
}

__attribute__((noinline)) static void hold_table(void)
{
	sleep_us(10000);
	asm volatile("");
}

static void *writer(void *unused)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_rwlock_wrlock(&table);
		pthread_barrier_wait(&has_it);
		hold_table();
		pthread_rwlock_unlock(&table);
		pthread_barrier_wait(&round_ends);
	}
	return unused;
}

__attribute__((noinline)) static void read_table(void)
{
	pthread_rwlock_rdlock(&table);
	pthread_rwlock_unlock(&table);
	asm volatile("");
}

__attribute__((noinline)) static void write_table(void)
{
	pthread_rwlock_wrlock(&table);
	pthread_rwlock_unlock(&table);
	asm volatile("");
}

static void *taker(void *take)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&has_it);
		/* Meanwhile the writer falls asleep. */
		sleep_us(700);
		((void (*)(void))take)();
		pthread_barrier_wait(&round_ends);
	}
	return NULL;
}

struct waiter {
	uint64_t value, address;
	uint32_t flags, reserved;
};

__attribute__((noinline)) static long wait_word(void)
{
	long result = syscall(FUTEX_WAIT, &word_one, 0L, ~0U, FUTEX2_U32_PRIVATE, NULL, 0);

	asm volatile("");
	return result;
}

__attribute__((noinline)) static long wait_words(void)
{
	struct waiter all[2] = {{0, (uintptr_t)&word_two, FUTEX2_U32_PRIVATE, 0},
				{0, (uintptr_t)&word_never, FUTEX2_U32_PRIVATE, 0}};
	long result = syscall(FUTEX_WAITV, all, 2, 0, NULL, 0);

	asm volatile("");
	return result;
}

__attribute__((noinline)) static void wake(unsigned int *word)
{
	/* Until the other one sleeps. */
	while (syscall(FUTEX_WAKE, word, ~0U, 1L, FUTEX2_U32_PRIVATE) == 0)
		sleep_us(100);
}

static void *waker(void *unused)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		sleep_us(500);
		wake(&word_one);
		sleep_us(500);
		wake(&word_two);
	}
	return unused;
}

static void start_and_join(void *(*one)(void *), void *(*other)(void *), void *(*third)(void *))
{
	pthread_t threads[3];
	int i, n = third ? 3 : 2;

	pthread_create(&threads[0], NULL, one, NULL);
	pthread_create(&threads[1], NULL, other, (void *)read_table);
	if (third)
		pthread_create(&threads[2], NULL, third, (void *)write_table);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void *word_waiter(void *unused)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		wait_word();
		wait_words();
	}
	return unused;
}

int main(void)
{
	int has_calls = syscall(FUTEX_WAKE, &word_one, ~0U, 1L, FUTEX2_U32_PRIVATE) == 0;
	char byte;

	pthread_barrier_init(&has_it, NULL, 3);
	pthread_barrier_init(&round_ends, NULL, 3);
	if (read(0, &byte, 1) != 1)
		return 1;
	start_and_join(writer, taker, taker);
	if (has_calls)
		start_and_join(waker, word_waiter, NULL);
	printf("%d\n", has_calls ? ROUNDS : 0);
	fflush(stdout);
	pause();
	return 0;
}
