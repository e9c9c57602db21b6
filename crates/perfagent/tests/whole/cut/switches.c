/*
 * Counts its own switches, on one CPU. After a byte on standard input a thread computes and sleeps in turn as many times as the first
 * argument says; then as many children as the second argument says come one after the other, sleep up to three times, and go. The
 * program tells what the kernel has counted for them, then waits:
 *   thread TID SLEEPS PREEMPTIONS CPU_NS
 *   children SLEEPS AT_MOST
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long rounds;

static long long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec time = {.tv_nsec = ms * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void compute_ms(long ms)
{
	const long long end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		;
}

static void *compute_and_sleep(void *nothing)
{
	struct rusage used;
	long long cpu_ns;

	for (long left = rounds; left > 0; left--) {
		compute_ms(3);
		sleep_ms(2);
	}
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	getrusage(RUSAGE_THREAD, &used);
	dprintf(1, "thread %ld %ld %ld %lld\n", syscall(SYS_gettid), used.ru_nvcsw, used.ru_nivcsw, cpu_ns);
	return nothing;
}

int main(int argc, char **argv)
{
	long sleeps = 0, at_most = 0;
	pthread_t thread;
	cpu_set_t one;
	char byte;

	if (argc != 3 || sched_getaffinity(0, sizeof(one), &one))
		return 1;
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &one))
			continue;
		if (found++)
			CPU_CLR(cpu, &one);
	}
	rounds = atol(argv[1]);
	if (sched_setaffinity(0, sizeof(one), &one) || read(0, &byte, 1) != 1)
		return 1;
	if (pthread_create(&thread, NULL, compute_and_sleep, NULL) || pthread_join(thread, NULL))
		return 1;
	for (int child = 0; child < atoi(argv[2]); child++) {
		struct rusage used;
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			for (int left = child % 4; left > 0; left--)
				sleep_ms(1);
			_exit(0);
		}
		if (wait4(pid, NULL, 0, &used) != pid)
			return 1;
		sleeps += child % 4;
		/* Its end is a switch too, which may be counted by then. */
		at_most += used.ru_nvcsw;
	}
	dprintf(1, "children %ld %ld\n", sleeps, at_most);
	while (read(0, &byte, 1) == 1)
		;
	return 0;
}
