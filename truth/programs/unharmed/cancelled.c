/* Threads that are cancelled while they wait, and inside of a function that calls the allocator, with handlers that clean up. */
#include "unharmed.h"
#include <pthread.h>
#include <unistd.h>

static int pipes[2];
static long cleaned;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void clean(void *memory)
{
	free(memory);
	__atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST);
}

N static long waits(void *memory)
{
	char byte;
	memset(memory, 1, 100);
	return read(pipes[0], &byte, 1);
}

static void *reader(void *unused)
{
	void *memory = malloc(100);
	pthread_cleanup_push(clean, memory);
	waits(memory);
	pthread_cleanup_pop(1);
	return unused;
}

/* A point of cancellation below a function that allocates, as in an allocator's hook. */
N void *allocates(size_t size)
{
	void *memory = malloc(size);
	pthread_cleanup_push(clean, memory);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return memory;
}

static void *allocator(void *unused)
{
	for (;;)
		free(allocates(64));
	return unused;
}

static void *locker(void *unused)
{
	pthread_mutex_lock(&lock);
	pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &lock);
	sleep(1000);
	pthread_cleanup_pop(1);
	return unused;
}

int main(void)
{
	void *(*const kinds[])(void *) = {reader, allocator, locker};
	CHECK(!pipe(pipes));
	for (int i = 0; i < 300; i++) {
		pthread_t thread;
		void *result;
		CHECK(!pthread_create(&thread, NULL, kinds[i % 3], NULL));
		if (i % 2)
			usleep(100);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result));
		CHECK(result == PTHREAD_CANCELED);
		CHECK(!pthread_mutex_trylock(&lock));
		CHECK(!pthread_mutex_unlock(&lock));
	}
	printf("all were cancelled\n");
	return 3;
}
