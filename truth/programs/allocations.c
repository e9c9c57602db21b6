/* Six functions that allocate, with every function of the C library that does, and one that allocates in a child. After a line
 * on stdin each does so ROUNDS times; then the program prints, for each, "site NAME OBJECTS BYTES OBJECTS_IN_USE BYTES_IN_USE",
 * and waits to be killed. `churn` frees at once, `leak` keeps all, `handed` is freed by another thread, `grown` resizes its
 * objects, also to a size that cannot be had, `aligned` keeps every third, `array` replaces a null pointer. The child frees what
 * its parent has allocated, which stays in use in the parent.
 * Truth: main, work, one of churn leak handed grown aligned array; main, child, orphan. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "truth.h"

enum { CHURN, LEAK, HANDED, GROWN, ALIGNED, ARRAY, SITES };

static const char *const names[SITES] = { "churn", "leak", "handed", "grown", "aligned", "array" };
static struct {
	long objects, bytes, live, live_bytes;
} sites[SITES];

static void took(int site, void *object, long bytes)
{
	if (!object)
		_exit(1);
	sites[site].objects++;
	sites[site].bytes += bytes;
	sites[site].live++;
	sites[site].live_bytes += bytes;
}

static void gave(int site, long bytes)
{
	sites[site].live--;
	sites[site].live_bytes -= bytes;
}

/* What `handed` has allocated and another thread frees. */
static void *to_free[1024];
static volatile long given, freed;

EXACT void churn(long round)
{
	long bytes = 16 + round % 64;
	void *object = malloc(bytes);

	took(CHURN, object, bytes);
	gave(CHURN, bytes);
	free(object);
	free(NULL);
	NO_TAIL_CALL;
}

EXACT void leak(long round)
{
	static void *volatile kept;
	long bytes = 100 + round % 3;

	kept = malloc(bytes);
	took(LEAK, kept, bytes);
	NO_TAIL_CALL;
}

EXACT void handed(long round)
{
	long number = 1 + round % 4, bytes = number * 40;
	void *object = calloc(number, 40);

	took(HANDED, object, bytes);
	gave(HANDED, bytes);
	while (given - freed == 1024)
		;
	to_free[given % 1024] = object;
	__sync_fetch_and_add(&given, 1);
	NO_TAIL_CALL;
}

EXACT void grown(long round)
{
	volatile size_t too_much = PTRDIFF_MAX;
	char *object = realloc(NULL, 50), *larger;

	took(GROWN, object, 50);
	larger = realloc(object, 5000);
	gave(GROWN, 50);
	took(GROWN, larger, 5000);
	/* It stays in use. */
	if (realloc(larger, too_much))
		_exit(1);
	if (round % 2) {
		gave(GROWN, 5000);
		/* The same as free. */
		if (realloc(larger, 0))
			_exit(1);
	}
	NO_TAIL_CALL;
}

EXACT void aligned(long round)
{
	void *object = NULL;
	long bytes = 192;

	switch (round % 3) {
	case 0:
		if (posix_memalign(&object, 64, bytes))
			_exit(1);
		break;
	case 1:
		object = aligned_alloc(64, bytes);
		break;
	default:
		bytes = 4096;
		object = valloc(bytes);
	}
	took(ALIGNED, object, bytes);
	if (round % 3) {
		gave(ALIGNED, bytes);
		free(object);
	}
	NO_TAIL_CALL;
}

EXACT void array(long round)
{
	void *object = reallocarray(NULL, 3, 20 + round % 5);

	took(ARRAY, object, 3 * (20 + round % 5));
	if (round % 4) {
		gave(ARRAY, 3 * (20 + round % 5));
		free(object);
	}
	NO_TAIL_CALL;
}

static void *free_handed(void *unused)
{
	for (;;) {
		while (freed == given)
			;
		free(to_free[freed % 1024]);
		__sync_fetch_and_add(&freed, 1);
	}
	return unused;
}

EXACT void work(long rounds)
{
	for (long round = 0; round < rounds; round++) {
		churn(round);
		leak(round);
		handed(round);
		grown(round);
		aligned(round);
		array(round);
	}
	while (freed < given)
		;
	NO_TAIL_CALL;
}

EXACT void orphan(void)
{
	void *volatile object = malloc(777);

	(void)object;
	NO_TAIL_CALL;
}

EXACT void child(void *of_parent)
{
	free(of_parent);
	orphan();
	_exit(0);
}

int main(int argc, char **argv)
{
	long rounds = argument(argc, argv, 1, 1000);
	pthread_t thread;
	char line[128];
	void *object;

	if (pthread_create(&thread, NULL, free_handed, NULL))
		return 1;
	ready();
	wait_for_go();
	work(rounds);
	object = malloc(64);
	pid_t pid = fork();
	if (!pid)
		child(object);
	if (!object || pid < 0 || waitpid(pid, NULL, 0) < 0)
		return 1;
	for (int site = 0; site < SITES; site++) {
		int length = snprintf(line, sizeof(line), "site %s %ld %ld %ld %ld\n", names[site], sites[site].objects,
				      sites[site].bytes, sites[site].live, sites[site].live_bytes);
		say(line, (unsigned long)length);
	}
	say("done\n", 5);
	for (;;)
		pause();
}
