// An allocator of the program's own, whose calls also end by the cancellation of their thread, by its exit, and by longjmp.
// Truth: each line `site FUNCTION OBJECTS BYTES IN-USE BYTES-IN-USE` that it prints. `cleaned N` is four times the rounds: two threads of each round are
// unwound, and each runs the handlers of `cleanup` and of pthread_cleanup_push.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include "truth.h"

enum { CANCELLED = 10001, EXITED = 10002, JUMPED = 10003 };

static char arena[256 << 20];
static size_t used;
static jmp_buf back;
static int cleaned, waits;

static void *take(size_t n)
{
	n = (n + 31) & ~15UL;
	size_t at = __atomic_fetch_add(&used, n, __ATOMIC_RELAXED);
	return at + n > sizeof(arena) ? NULL : arena + at;
}

EXACT void *malloc(size_t n)
{
	if (n == CANCELLED) {
		__atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	if (n == EXITED)
		pthread_exit(NULL);
	if (n == JUMPED)
		longjmp(back, 1);
	return take(n);
}
EXACT void free(void *p) { __asm__ volatile("" :: "r"(p)); }
EXACT void *calloc(size_t a, size_t b) { void *p = take(a * b); return p ? memset(p, 0, a * b) : p; }
EXACT void *realloc(void *o, size_t n) { void *p = take(n); return p && o ? memcpy(p, o, n) : p; }

// The compiler takes malloc for a function that no exception leaves.
static void *(*volatile allocate)(size_t) = malloc;

EXACT void *kept(size_t n) { void *p = allocate(n); NO_TAIL_CALL; return p; }
EXACT void gone(size_t n) { free(allocate(n)); NO_TAIL_CALL; }

static void clean(int *flag) { __atomic_fetch_add(&cleaned, *flag, __ATOMIC_RELAXED); }
static void clean_up(void *flag) { clean(flag); }

static void *thread(void *size)
{
	int flag __attribute__((cleanup(clean))) = 1, other = 1;

	kept(64);
	pthread_cleanup_push(clean_up, &other);
	allocate((size_t)size);
	pthread_cleanup_pop(0);
	return NULL;
}

static void run(size_t size)
{
	pthread_t id;

	waits = 0;
	if (pthread_create(&id, NULL, thread, (void *)size))
		exit(8);
	if (size == CANCELLED) {
		while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
			;
		pthread_cancel(id);
	}
	pthread_join(id, NULL);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20;
	volatile long jumped = 0, i;

	if (argc > 2) {
		ready();
		wait_for_go();
	}
	for (i = 0; i < rounds; i++) {
		kept(100);
		run(CANCELLED);
		run(EXITED);
		if (setjmp(back))
			jumped++;
		else
			allocate(JUMPED);
		kept(100);
		gone(30);
	}
	printf("cleaned %d jumped %ld\n", cleaned, jumped);
	printf("site kept %ld %ld %ld %ld\n", 4 * rounds, rounds * 328, 4 * rounds, rounds * 328);
	printf("site gone %ld %ld 0 0\n", rounds, rounds * 30);
	fflush(stdout);
	if (argc > 2)
		say("done\n", 5);
	return cleaned == 4 * rounds && jumped == rounds ? 0 : 9;
}
