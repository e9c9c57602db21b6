/* Threads that end in the middle of nested calls, and keys with destructors; the first thread ends before the others. */
#include "unharmed.h"
#include <pthread.h>

static pthread_key_t key;
static long destroyed, cleaned;

static void destroy(void *memory)
{
	free(memory);
	__atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void clean(void *unused)
{
	(void)unused;
	__atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST);
}

N void *nested(long depth)
{
	void *result;
	pthread_cleanup_push(clean, NULL);
	if (!depth)
		pthread_exit((void *)42);
	result = nested(depth - 1);
	pthread_cleanup_pop(0);
	return result;
}

static void *body(void *depth)
{
	pthread_setspecific(key, malloc(32));
	return nested((long)depth);
}

static void *last(void *first)
{
	void *result;
	CHECK(!pthread_join(*(pthread_t *)first, &result));
	printf("%ld %ld\n", destroyed, cleaned);
	fflush(stdout);
	_Exit(11);
}

int main(void)
{
	static pthread_t own;
	pthread_t thread;
	CHECK(!pthread_key_create(&key, destroy));
	for (long i = 0; i < 500; i++) {
		void *result;
		CHECK(!pthread_create(&thread, NULL, body, (void *)(i % 10)));
		CHECK(!pthread_join(thread, &result));
		CHECK(result == (void *)42);
	}
	own = pthread_self();
	CHECK(!pthread_create(&thread, NULL, last, &own));
	pthread_exit(NULL);
}
