/* A program measures its own blocking: before and after each call that may block it reads the clocks and the kernel's count
 * of the thread's switches. Off-CPU time is wall-clock time minus the thread's CPU time: it needs no profiler, and it
 * stays right on a busy machine. Voluntary switches are blocks, involuntary ones preemptions.
 *
 * CPU time is perf's task clock of the thread, which runs from switch to switch. CLOCK_THREAD_CPUTIME_ID leaves out the time
 * that a hypervisor took while the thread ran, but the scheduler does not see that as off-CPU time. So that clock is read
 * only where the kernel refuses the task clock. */
#ifndef METERED_H
#define METERED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* Opens a task clock that begins at 0; gives 0 if the kernel refuses. With `inherit` it counts threads that start later too. */
static inline int task_clock(int inherit)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.inherit = inherit != 0,
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd > 0 ? (int)fd : 0;
}

static inline struct meter meter_of(int whom, int clock, clockid_t without)
{
	struct rusage used;
	unsigned long cpu_ns;
	getrusage(whom, &used);
	unsigned long wall_ns = clock_ns(CLOCK_MONOTONIC);
	if (clock == 0 || read(clock, &cpu_ns, sizeof(cpu_ns)) != sizeof(cpu_ns))
		cpu_ns = clock_ns(without);
	return (struct meter){ wall_ns, cpu_ns, (unsigned long)used.ru_nvcsw, (unsigned long)used.ru_nivcsw };
}

static _Thread_local int thread_clock_;

static inline struct meter meter_now(void)
{
	if (thread_clock_ == 0)
		thread_clock_ = task_clock(0);
	return meter_of(RUSAGE_THREAD, thread_clock_, CLOCK_THREAD_CPUTIME_ID);
}

/* Closes the clock of a thread that ends, so that programs with many threads do not run out of descriptors. */
static inline void meter_close(void)
{
	if (thread_clock_ > 0)
		close(thread_clock_);
	thread_clock_ = 0;
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

/* A reading for the whole process: of all threads that it starts after the first call, also of those that have ended. */
static inline struct meter process_now(void)
{
	static int clock;
	if (clock == 0)
		clock = task_clock(1);
	return meter_of(RUSAGE_SELF, clock, CLOCK_PROCESS_CPUTIME_ID);
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
