/* 64 threads that compute.
 * usage: threads [COUNT]
 * Truth: thread start, worker, stage_one, stage_two, spin. */
#include <pthread.h>

#include "spin.h"

EXACT long stage_two(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long stage_one(long rounds)
{
	volatile char buffer[40];
	buffer[rounds % 40] = 1;
	return stage_two(rounds) + buffer[rounds % 40];
}

EXACT void *worker(void *unused)
{
	for (;;) {
		stage_one(1000);
		NO_TAIL_CALL;
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (long i = argument(argc, argv, 1, 64); i > 0; i--)
		pthread_create(&thread, NULL, worker, NULL);
	ready();
	pthread_join(thread, NULL);
	return 0;
}
