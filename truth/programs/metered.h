/* What a program says about its own blocking: around each call that may block the clocks and the kernel's own count
 * of the thread's switches are read. Time off the CPU is wall clock less the thread's CPU clock: it needs no profiler's
 * word and stays true on a busy machine. Voluntary switches are blocks, involuntary ones preemptions. */
#ifndef METERED_H
#define METERED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "truth.h"

struct meter {
	unsigned long wall_ns, cpu_ns, voluntary, involuntary;
};

static inline unsigned long clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (unsigned long)t.tv_sec * 1000000000 + (unsigned long)t.tv_nsec;
}

static inline struct meter meter_of(int whom, clockid_t cpu_clock)
{
	struct rusage used;
	getrusage(whom, &used);
	return (struct meter){
		clock_ns(CLOCK_MONOTONIC),
		clock_ns(cpu_clock),
		(unsigned long)used.ru_nvcsw,
		(unsigned long)used.ru_nivcsw,
	};
}

static inline struct meter meter_now(void)
{
	return meter_of(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID);
}

/* Adds what passed since `begun`; one meter may serve many threads. */
static inline void meter_add(struct meter *sum, struct meter begun)
{
	struct meter now = meter_now();
	__atomic_fetch_add(&sum->wall_ns, now.wall_ns - begun.wall_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sum->cpu_ns, now.cpu_ns - begun.cpu_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sum->voluntary, now.voluntary - begun.voluntary, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sum->involuntary, now.involuntary - begun.involuntary, __ATOMIC_RELAXED);
}

static inline void meter_print(const char *kind, const char *name, const struct meter *m)
{
	printf("%s %s %lu %lu %lu %lu\n", kind, name, m->wall_ns, m->cpu_ns, m->voluntary, m->involuntary);
}

/* The whole process: all its threads, those that ended too. */
static inline struct meter process_now(void)
{
	return meter_of(RUSAGE_SELF, CLOCK_PROCESS_CPUTIME_ID);
}

static inline void process_print(const char *name, struct meter begun)
{
	struct meter now = process_now();
	printf("process %s %lu %lu %lu %lu\n", name, now.wall_ns - begun.wall_ns, now.cpu_ns - begun.cpu_ns,
	       now.voluntary - begun.voluntary, now.involuntary - begun.involuntary);
}

static inline void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static inline void sleep_us(unsigned long us)
{
	struct timespec t = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };
	nanosleep(&t, NULL);
}

/* A thread with a small stack, so that thousands fit. */
static inline pthread_t thread_start(void *(*body)(void *), void *data)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	if (pthread_create(&thread, &attr, body, data) != 0) {
		fprintf(stderr, "cannot start a thread\n");
		exit(1);
	}
	pthread_attr_destroy(&attr);
	return thread;
}

#endif
