/* Threads that sleep from before the capture until after it.
 * usage: sleepers COUNT [once]
 * All sleep when the program prints "ready". With "once" a line from the runner wakes each of them one time;
 * when all sleep again, the program prints "woken COUNT".
 * Truth: thread start, dozer, doze, the call in libc; the main thread waits in main, wait_for_go. The
 * off-CPU time of each thread is the length of the capture (with "once": in two intervals). */
#include "metered.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn, asleep;

EXACT void doze(void)
{
	pthread_mutex_lock(&guard);
	asleep++;
	for (long seen = turn; seen == turn;)
		pthread_cond_wait(&turned, &guard);
	pthread_mutex_unlock(&guard);
	NO_TAIL_CALL;
}

EXACT void *dozer(void *unused)
{
	for (;;) {
		doze();
		NO_TAIL_CALL;
	}
	return unused;
}

static void until_all_sleep(long count)
{
	for (long now = 0; now < count; sleep_us(1000)) {
		pthread_mutex_lock(&guard);
		now = asleep;
		pthread_mutex_unlock(&guard);
	}
	/* The thread that counted itself last needs a moment to fall asleep. */
	sleep_us(20000);
}

int main(int argc, char **argv)
{
	long count = argument(argc, argv, 1, 1);

	for (long i = 0; i < count; i++)
		thread_start(dozer, NULL);
	until_all_sleep(count);
	ready();
	if (argc > 2) {
		wait_for_go();
		pthread_mutex_lock(&guard);
		asleep = 0;
		turn++;
		pthread_mutex_unlock(&guard);
		pthread_cond_broadcast(&turned);
		until_all_sleep(count);
		printf("woken %ld\n", count);
		fflush(stdout);
	}
	for (;;)
		pause();
}
