/* Words: timer, or a number of threads.
 *
 * timer: one thread, to which a timer sends signals all the time. Else so many threads that raise signals all the time,
 * and others that begin and end all the time. Each signal that is raised is handled before the call that raised it
 * returns. Ends at SIGTERM: 0 if all is well. Prints the signals that were handled, those that were raised, and how
 * often a signal was not handled in time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static atomic_long handled, raised, missed;
static __thread volatile long own;

static void on_signal(int number)
{
	if (number == SIGTERM) {
		over = 1;
		return;
	}
	if (number == SIGUSR1) {
		own++;
		handled++;
	}
}

static void raise_some(long count)
{
	for (long i = 0; i < count && !over; i++) {
		long before = own;
		raised++;
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
		missed += own != before + 1;
	}
}

static void *raise_always(void *unused)
{
	while (!over)
		raise_some(1000);
	return unused;
}

static void *raise_few(void *unused)
{
	raise_some(200);
	return unused;
}

static void *begin_and_end(void *unused)
{
	while (!over) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, raise_few, NULL))
				abort();
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	return unused;
}

static int spin(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	struct itimerspec often = {{0, 20000}, {0, 20000}};
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	while (!over)
		;
	puts("0 0 0");
	return 0;
}

int main(int count, char **words)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t term, none;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	if (count > 1 && !strcmp(words[1], "timer"))
		return spin();
	sigemptyset(&none);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	pthread_t threads[64];
	int raising = count > 1 ? atoi(words[1]) : 1;
	for (int i = 0; i < raising; i++)
		pthread_create(&threads[i], NULL, raise_always, NULL);
	pthread_create(&threads[raising], NULL, begin_and_end, NULL);
	puts("ready");
	fflush(stdout);
	while (!over)
		sigsuspend(&none);
	for (int i = 0; i <= raising; i++)
		pthread_join(threads[i], NULL);
	printf("%ld %ld %ld\n", handled, raised, missed);
	return 0;
}
