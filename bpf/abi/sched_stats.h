/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Statistics of the scheduler and counts of events at switches. */
#ifndef PERF_AGENT_ABI_SCHED_STATS_H
#define PERF_AGENT_ABI_SCHED_STATS_H

/* Histograms of durations in ns: 64 buckets for each power of two, and one bucket for all durations from 2^42 ns on;
 * see crates/metrics/src/bucket.rs. */
#define HISTOGRAM_SUB_SHIFT 6
#define HISTOGRAM_LIMIT_SHIFT 42
#define HISTOGRAM_BUCKETS (((HISTOGRAM_LIMIT_SHIFT - HISTOGRAM_SUB_SHIFT + 1) << HISTOGRAM_SUB_SHIFT) + 1)

struct durations {
	unsigned long long count;
	unsigned long long sum;
	unsigned long long min;
	unsigned long long max;
};

struct histogram {
	struct durations durations;
	unsigned long long buckets[HISTOGRAM_BUCKETS];
};

/* The statistics of all followed threads on one CPU. */
struct schedule {
	struct histogram on_cpu;
	struct histogram runqueue;
	unsigned long long switches[4]; /* by enum off_state; the end of a thread counts as OFF_BLOCKED */
	unsigned long long migrations;
	unsigned long long on_cpu_ns; /* also of slices whose begin was not seen */
};

/* Keys of statistics by process begin with its start (CLOCK_MONOTONIC), which distinguishes processes with equal pids.
 */
struct process_cpu {
	unsigned long long start;
	unsigned int pid;
	unsigned int cpu;
};

/* The statistics of one process on one CPU. */
struct process_schedule {
	struct durations on_cpu;
	struct durations runqueue;
	unsigned long long switches[4];
	unsigned long long migrations;
	unsigned long long on_cpu_ns;
};

/* A reading of an event: struct bpf_perf_event_value of include/uapi/linux/bpf.h. */
struct event_count {
	unsigned long long value;
	unsigned long long enabled_ns;
	unsigned long long running_ns;
};

#define MAX_SPLIT_EVENTS 8

struct split_counts {
	struct event_count at[MAX_SPLIT_EVENTS];
};

struct process_event {
	unsigned long long start;
	unsigned int pid;
	unsigned int event;
};

#define DURATION_ON_CPU 0
#define DURATION_RUNQUEUE 1

struct process_bucket {
	unsigned long long start;
	unsigned int pid;
	unsigned short kind;
	unsigned short bucket;
};

_Static_assert(sizeof(struct process_cpu) == 16, "a process and a number");
_Static_assert(sizeof(struct process_event) == 16, "a process and a number");
_Static_assert(sizeof(struct process_bucket) == 16, "a process and two numbers");

#endif
