/* Threads that wait for locks of all kinds, and know how often and how long.
 * usage: locks [MS]
 * Three mutexes are held for 2 us, 20 us and 1 ms by two threads that contend for them, for MS each; a fourth one is held
 * by a thread that sleeps. Then threads wait for a condition, a semaphore, and the end of a thread. What each kind of wait
 * cost is printed as "lock NAME WALL_NS CPU_NS BLOCKS PREEMPTIONS DELAY_NS": the last is the time in which the threads could
 * have run, waiting for a CPU.
 * Truth: each block is one wait for NAME, a static variable. The time of the waits is between wall-clock time minus CPU time,
 * and that minus the delay. The waiter of a mutex is in thread_NAME, take_NAME; so is the thread that lets it go, which held
 * it when the wait began. */

#include "metered.h"

#include <semaphore.h>

#define MUTEX(name, ns)                                                                                                \
	static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                                       \
	static struct meter meter_##name;                                                                              \
	static unsigned long delay_##name;                                                                             \
	EXACT void take_##name(void)                                                                                   \
	{                                                                                                              \
		pthread_mutex_lock(&name);                                                                             \
		hold(ns);                                                                                              \
		pthread_mutex_unlock(&name);                                                                           \
		NO_TAIL_CALL;                                                                                          \
	}                                                                                                              \
	EXACT void *thread_##name(void *ms)                                                                            \
	{                                                                                                              \
		prctl(PR_SET_NAME, #name);                                                                             \
		contend(take_##name, (ns) / 4, (long)ms, &meter_##name, &delay_##name);                                \
		NO_TAIL_CALL;                                                                                          \
		return NULL;                                                                                           \
	}

/* On a CPU for so long. */
EXACT void hold(unsigned long ns)
{
	unsigned long end = clock_ns(CLOCK_MONOTONIC) + ns;

	while (clock_ns(CLOCK_MONOTONIC) < end)
		;
	NO_TAIL_CALL;
}

/* For how long the thread could have run, without a CPU. */
static unsigned long delay_now(void)
{
	char text[128] = "";
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	unsigned long ran = 0, delay = 0;

	if (!file || !fgets(text, sizeof(text), file) || sscanf(text, "%lu %lu", &ran, &delay) != 2)
		delay = 0;
	if (file)
		fclose(file);
	return delay;
}

static pthread_barrier_t all_here;

EXACT void contend(void (*take)(void), unsigned long pause_ns, long ms, struct meter *meter, unsigned long *delay)
{
	unsigned long end, delayed;
	struct meter begun;

	meter_now();
	pthread_barrier_wait(&all_here);
	delayed = delay_now();
	begun = meter_now();
	end = clock_ns(CLOCK_MONOTONIC) + (unsigned long)ms * 1000000;
	while (clock_ns(CLOCK_MONOTONIC) < end) {
		take();
		hold(pause_ns);
	}
	meter_add(meter, begun);
	__atomic_fetch_add(delay, delay_now() - delayed, __ATOMIC_RELAXED);
	meter_close();
	NO_TAIL_CALL;
}

MUTEX(lock_2us, 2000UL)
MUTEX(lock_20us, 20000UL)
MUTEX(lock_1ms, 1000000UL)

static void print_lock(const char *name, const struct meter *m, unsigned long delay_ns)
{
	printf("lock %s %lu %lu %lu %lu %lu\n", name, m->wall_ns, m->cpu_ns, m->voluntary, m->involuntary, delay_ns);
}

static void run_two(void *(*body)(void *), long ms)
{
	pthread_t threads[2];

	threads[0] = thread_start(body, (void *)ms);
	/* So that the first one sleeps at the barrier. */
	sleep_us(5000);
	threads[1] = thread_start(body, (void *)ms);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* A thread that sleeps while it holds the lock, and one that waits for it. */
static pthread_mutex_t lock_asleep = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

EXACT void sleep_with_lock(void)
{
	pthread_mutex_lock(&lock_asleep);
	sleep_us(5000);
	pthread_mutex_unlock(&lock_asleep);
	NO_TAIL_CALL;
}

EXACT void *thread_sleeper(void *unused)
{
	prctl(PR_SET_NAME, "sleeper");
	while (!stop) {
		sleep_with_lock();
		sleep_us(1000);
	}
	NO_TAIL_CALL;
	return unused;
}

EXACT void take_asleep(void)
{
	pthread_mutex_lock(&lock_asleep);
	pthread_mutex_unlock(&lock_asleep);
	NO_TAIL_CALL;
}

EXACT void *thread_of_sleeper(void *ms)
{
	unsigned long end = clock_ns(CLOCK_MONOTONIC) + (unsigned long)(long)ms * 1000000;

	prctl(PR_SET_NAME, "waiter");
	while (clock_ns(CLOCK_MONOTONIC) < end) {
		take_asleep();
		hold(100000);
	}
	stop = 1;
	NO_TAIL_CALL;
	return NULL;
}

/* Signals, posts and an end. */
#define ROUNDS 300
static pthread_mutex_t lock_of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int given;

EXACT void *thread_giver(void *unused)
{
	prctl(PR_SET_NAME, "giver");
	for (int i = 0; i < ROUNDS; i++) {
		sleep_us(1000);
		pthread_mutex_lock(&lock_of_condition);
		given++;
		pthread_mutex_unlock(&lock_of_condition);
		pthread_cond_signal(&condition);
		sleep_us(1000);
		sem_post(&semaphore);
	}
	NO_TAIL_CALL;
	return unused;
}

EXACT void await_condition(int round)
{
	pthread_mutex_lock(&lock_of_condition);
	while (given <= round)
		pthread_cond_wait(&condition, &lock_of_condition);
	pthread_mutex_unlock(&lock_of_condition);
	NO_TAIL_CALL;
}

EXACT void await_semaphore(void)
{
	sem_wait(&semaphore);
	NO_TAIL_CALL;
}

EXACT void *thread_taker(void *unused)
{
	prctl(PR_SET_NAME, "taker");
	for (int i = 0; i < ROUNDS; i++) {
		await_condition(i);
		await_semaphore();
	}
	NO_TAIL_CALL;
	return unused;
}

EXACT void await_end(pthread_t thread)
{
	pthread_join(thread, NULL);
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	long ms = argument(argc, argv, 1, 2000);
	pthread_t giver, taker;

	pthread_barrier_init(&all_here, NULL, 2);
	sem_init(&semaphore, 0, 0);
	run_two(thread_lock_2us, ms);
	run_two(thread_lock_20us, ms);
	run_two(thread_lock_1ms, ms);
	giver = thread_start(thread_sleeper, NULL);
	taker = thread_start(thread_of_sleeper, (void *)ms);
	pthread_join(taker, NULL);
	pthread_join(giver, NULL);
	taker = thread_start(thread_taker, NULL);
	giver = thread_start(thread_giver, NULL);
	await_end(taker);
	await_end(giver);
	print_lock("lock_2us", &meter_lock_2us, delay_lock_2us);
	print_lock("lock_20us", &meter_lock_20us, delay_lock_20us);
	print_lock("lock_1ms", &meter_lock_1ms, delay_lock_1ms);
	return 0;
}
