/* A mutex in memory that three processes share, at another address in each. It begins when it reads a byte: ROUNDS times one process holds the
 * mutex for 10 ms, and the others want it. Prints how often they waited for longer than 1 ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (1 << 20)

struct shared {
	char before[256];
	pthread_mutex_t mutex;
	pthread_barrier_t begins, held, round_ends;
	long waits;
};

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((noinline)) static void hold(struct shared *shared)
{
	pthread_mutex_lock(&shared->mutex);
	pthread_barrier_wait(&shared->held);
	usleep(10000);
	pthread_mutex_unlock(&shared->mutex);
	pthread_barrier_wait(&shared->round_ends);
	asm volatile("");
}

__attribute__((noinline)) static void want(struct shared *shared)
{
	long begin;

	pthread_barrier_wait(&shared->held);
	begin = now_us();
	pthread_mutex_lock(&shared->mutex);
	if (now_us() - begin > 1000)
		shared->waits++;
	pthread_mutex_unlock(&shared->mutex);
	pthread_barrier_wait(&shared->round_ends);
}

int main(void)
{
	int memory = memfd_create("lock", 0), child, round;
	pthread_mutexattr_t of_mutex;
	pthread_barrierattr_t of_barrier;
	struct shared *shared;

	if (memory < 0 || ftruncate(memory, SIZE) || getchar() == EOF)
		return 1;
	shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (shared == MAP_FAILED)
		return 1;
	pthread_mutexattr_init(&of_mutex);
	pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->mutex, &of_mutex);
	pthread_barrierattr_init(&of_barrier);
	pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->begins, &of_barrier, 3);
	pthread_barrier_init(&shared->held, &of_barrier, 3);
	pthread_barrier_init(&shared->round_ends, &of_barrier, 3);
	for (child = 1; child <= 2; child++) {
		if (fork())
			continue;
		char *at = (char *)0x7e0000000000 + child * 0x100000000;
		struct shared *own = mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0);

		if (own == MAP_FAILED)
			_exit(1);
		munmap(shared, SIZE);
		pthread_barrier_wait(&own->begins);
		for (round = 0; round < ROUNDS; round++)
			want(own);
		_exit(0);
	}
	pthread_barrier_wait(&shared->begins);
	for (round = 0; round < ROUNDS; round++)
		hold(shared);
	wait(NULL);
	wait(NULL);
	printf("%ld\n", shared->waits);
	fflush(stdout);
	pause();
	return 0;
}
