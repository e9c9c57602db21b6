/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Statistics of the scheduler: lengths of slices, waits for a CPU, reasons of switches, migrations. They are kept by
 * CPU, and on request by process. While threads are followed, only thread_switch writes here, with interrupts off, each
 * CPU into its own elements. So nothing is atomic, and minima and maxima are exact.
 */
#ifndef PERF_AGENT_SCHED_STATS_H
#define PERF_AGENT_SCHED_STATS_H

#include "threads.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct schedule);
} schedules SEC(".maps");

/*
 * By process and CPU. There are two tables, as for sums: the program adds to one while user space empties the other. It
 * does so every second, so the number of processes that run in a second bounds their size.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_cpu);
	__type(value, struct process_schedule);
} process_schedules_a SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_cpu);
	__type(value, struct process_schedule);
} process_schedules_b SEC(".maps");

/* The histograms of processes: most of their buckets are empty. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_bucket);
	__type(value, u64);
} process_buckets_a SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_bucket);
	__type(value, u64);
} process_buckets_b SEC(".maps");

/* The bucket of a duration, as crates/metrics/src/bucket.rs has it: 64 for each power of two. */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 shift = 0;
	u64 rest = ns;

	if (!(ns >> HISTOGRAM_SUB_SHIFT))
		return ns;
	if (ns >> HISTOGRAM_LIMIT_SHIFT)
		return HISTOGRAM_BUCKETS - 1;
	if (rest >> 32) {
		shift += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		shift += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		shift += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		shift += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		shift += 2;
		rest >>= 2;
	}
	if (rest >> 1)
		shift += 1;
	shift -= HISTOGRAM_SUB_SHIFT;
	return ((shift + 1) << HISTOGRAM_SUB_SHIFT) + (u32)(ns >> shift) - (1 << HISTOGRAM_SUB_SHIFT);
}

static __always_inline void add_duration(struct durations *d, u64 ns)
{
	if (!d->count || ns < d->min)
		d->min = ns;
	if (ns > d->max)
		d->max = ns;
	d->count++;
	d->sum += ns;
}

/* The side of the statistics of processes that is in use. A duration and its bucket go to the same side. */
static __always_inline u32 stats_side(void)
{
	return side_in_use(CONTROL_STATS_CHANGES);
}

/* A function of its own, because an empty record takes much of the stack. */
static __noinline struct process_schedule *process_schedule(struct counters *c, struct thread *t, u32 table)
{
	struct process_cpu key = {.start = t->start, .pid = t->pid, .cpu = bpf_get_smp_processor_id()};
	struct process_schedule *p = find_in(table, process_schedules, &key), first = {};

	if (p)
		return p;
	enter_in(table, process_schedules, &key, &first);
	p = find_in(table, process_schedules, &key);
	if (!p)
		count(c, COUNT_SWITCHES_LOST, 1);
	return p;
}

static __always_inline void add_to_process(struct counters *c, struct thread *t, u32 kind, u32 bucket, u64 ns)
{
	u32 table = stats_side();
	struct process_schedule *p = process_schedule(c, t, table);
	struct process_bucket key = {.start = t->start, .pid = t->pid, .kind = kind, .bucket = bucket};
	u64 one = 1, *n;

	if (!p)
		return;
	add_duration(kind == DURATION_ON_CPU ? &p->on_cpu : &p->runqueue, ns);
	n = find_in(table, process_buckets, &key);
	if (!n) {
		if (!enter_in(table, process_buckets, &key, &one))
			return;
		n = find_in(table, process_buckets, &key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count(c, COUNT_SWITCHES_LOST, 1);
}

static __always_inline struct schedule *this_schedule(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&schedules, &cpu);
}

static __always_inline void add_histogram(struct counters *c, struct thread *t, u32 kind, u64 ns)
{
	struct schedule *s = this_schedule();
	u32 bucket = bucket_of(ns);
	struct histogram *h;

	if (!s)
		return; /* unreachable: sized by the number of possible CPUs */
	h = kind == DURATION_ON_CPU ? &s->on_cpu : &s->runqueue;
	add_duration(&h->durations, ns);
	/* The compiler may not drop the check, which the verifier needs. */
	keep_in_register(bucket);
	if (bucket < HISTOGRAM_BUCKETS)
		h->buckets[bucket]++;
	if (each_process)
		add_to_process(c, t, kind, bucket, ns);
}

/* A thread has been on its CPU until now. The time is a slice only if its begin was seen. */
static __always_inline void add_slice(struct counters *c, struct thread *t, u64 ns, bool whole)
{
	struct schedule *s = this_schedule();
	struct process_schedule *p;

	if (!s)
		return;
	s->on_cpu_ns += ns;
	if (each_process) {
		p = process_schedule(c, t, stats_side());
		if (p)
			p->on_cpu_ns += ns;
	}
	if (whole)
		add_histogram(c, t, DURATION_ON_CPU, ns);
}

/* Exit counts as a voluntary switch. */
static __always_inline void add_switch(struct counters *c, struct thread *t, u32 off)
{
	struct schedule *s = this_schedule();
	struct process_schedule *p;

	if (!s)
		return;
	s->switches[off & (OFF_STATES - 1)]++;
	if (each_process) {
		p = process_schedule(c, t, stats_side());
		if (p)
			p->switches[off & (OFF_STATES - 1)]++;
	}
}

static __always_inline void add_arrival(struct counters *c, struct thread *t, u64 now)
{
	struct schedule *s = this_schedule();
	u32 cpu = bpf_get_smp_processor_id() + 1;
	struct process_schedule *p;

	/* For a thread that was runnable at its first sight, the begin of the wait is not known. */
	if (t->runnable && now > t->runnable &&
	    !(t->state == OFF_PREEMPTED && t->flags & THREAD_CUT && t->runnable == t->since))
		add_histogram(c, t, DURATION_RUNQUEUE, now - t->runnable);
	if (t->cpu && t->cpu != cpu && s) {
		s->migrations++;
		if (each_process) {
			p = process_schedule(c, t, stats_side());
			if (p)
				p->migrations++;
		}
	}
	t->cpu = cpu;
}

#endif
