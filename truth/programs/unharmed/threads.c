/* Many short threads, and long ones that share locks, conditions, barriers and semaphores. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static long counter, turn;

static void *brief(void *value)
{
	char *memory = malloc(100);
	memory[0] = 1;
	free(memory);
	return (void *)((long)value * 2);
}

static void *worker(void *own)
{
	for (int i = 0; i < 500; i++) {
		CHECK(!pthread_mutex_lock(&lock));
		while (turn % 4 != (long)own)
			CHECK(!pthread_cond_wait(&changed, &lock));
		turn++;
		counter += (long)own;
		CHECK(!pthread_cond_broadcast(&changed));
		CHECK(!pthread_mutex_unlock(&lock));
		CHECK(!pthread_rwlock_rdlock(&both) && !pthread_rwlock_unlock(&both));
		CHECK(!sem_post(&semaphore) && !sem_wait(&semaphore));
	}
	int last = pthread_barrier_wait(&barrier);
	CHECK(!last || last == PTHREAD_BARRIER_SERIAL_THREAD);
	return (void *)(long)(last != 0);
}

/* The owner of a robust mutex is killed while it has it. */
static int robust(void)
{
	pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	CHECK(!pthread_mutex_init(shared, &attributes));
	pid_t pid = fork();
	if (!pid) {
		pthread_mutex_lock(shared);
		raise(SIGKILL);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	int told = pthread_mutex_lock(shared);
	CHECK(!pthread_mutex_consistent(shared) && !pthread_mutex_unlock(shared));
	return told == EOWNERDEAD;
}

int main(void)
{
	pthread_t threads[4];
	long sum = 0, serial = 0;
	for (long i = 0; i < 1000; i++) {
		void *result;
		CHECK(!pthread_create(&threads[0], NULL, brief, (void *)i) && !pthread_join(threads[0], &result));
		sum += (long)result;
	}
	pthread_barrier_init(&barrier, NULL, 4);
	sem_init(&semaphore, 0, 0);
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, worker, (void *)i));
	for (int i = 0; i < 4; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		serial += (long)result;
	}
	struct timespec past = {1, 0};
	CHECK(pthread_mutex_lock(&lock) == 0 && pthread_mutex_timedlock(&lock, &past) == ETIMEDOUT);
	printf("%ld %ld %ld %d\n", sum, counter, serial, robust());
	return 0;
}
