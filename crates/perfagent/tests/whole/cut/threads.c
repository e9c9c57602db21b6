/*
 * Threads that each do one thing. After a byte on standard input the program tells what its threads do, one line `WHAT TID`
 * for each, and lets them run for as many milliseconds as the argument says. The one that is blocked ends before the others.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sem_t over;
static volatile int ended;

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void tell(const char *what)
{
	dprintf(1, "%s %ld\n", what, syscall(SYS_gettid));
}

static void sleep_ms(long ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void *sleeps(void *nothing)
{
	tell("sleeps");
	while (!ended)
		sleep_ms(700);
	return nothing;
}

static void *naps(void *nothing)
{
	tell("naps");
	while (!ended)
		sleep_ms(100);
	return nothing;
}

static void *spins(void *nothing)
{
	tell("spins");
	while (!ended)
		;
	return nothing;
}

static void *blocked(void *nothing)
{
	tell("blocked");
	sem_wait(&over);
	return nothing;
}

int main(int argc, char **argv)
{
	void *(*const bodies[])(void *) = {sleeps, sleeps, naps, spins, blocked};
	pthread_t threads[5];
	long end_ms;
	char byte;

	if (argc != 2 || sem_init(&over, 0, 0) || read(0, &byte, 1) != 1)
		return 1;
	end_ms = now_ms() + atol(argv[1]);
	for (int i = 0; i < 5; i++)
		if (pthread_create(&threads[i], NULL, bodies[i], NULL))
			return 1;
	while (now_ms() < end_ms)
		sleep_ms(50);
	sem_post(&over);
	pthread_join(threads[4], NULL);
	ended = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
