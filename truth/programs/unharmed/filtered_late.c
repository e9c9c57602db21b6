/* As filtered.c, but the filter comes after it has run for a while. */
#include "filter.h"
#include <pthread.h>
#include <time.h>

static void *body(void *unused)
{
	(void)unused;
	return (void *)allocate(20000);
}

int main(void)
{
	void *other;
	pthread_t thread;
	long sum = allocate(20000);
	nanosleep(&(struct timespec){0, 300000000}, NULL);
	CHECK(!pthread_create(&thread, NULL, body, NULL));
	filter_calls();
	sum += allocate(50000);
	CHECK(!pthread_join(thread, &other));
	printf("%ld %ld\n", sum, (long)other);
	return 0;
}
