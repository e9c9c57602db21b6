/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Counters of each CPU, split by process: at each switch the counts since the last switch are charged to the thread
 * that leaves.
 */
#ifndef PERF_AGENT_COUNTERS_H
#define PERF_AGENT_COUNTERS_H

#include "sched_stats.h"

/* The descriptor of an event on a CPU at `event * possible_cpus + cpu`. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} split_events SEC(".maps");

/* The readings of the events of a CPU at its last switch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct split_counts);
} split_last SEC(".maps");

/* One table for each side, as for the statistics of processes in sched_stats.h. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_event);
	__type(value, struct event_count);
} process_counters_a SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct process_event);
	__type(value, struct event_count);
} process_counters_b SEC(".maps");

static __always_inline void charge(struct counters *c, struct thread *t, u32 event, struct event_count *more)
{
	struct process_event key = {.start = t->start, .pid = t->pid, .event = event};
	u32 table = stats_side();
	struct event_count *sum = find_in(table, process_counters, &key);

	if (!sum) {
		if (!enter_in(table, process_counters, &key, more))
			return;
		sum = find_in(table, process_counters, &key);
	}
	if (!sum) {
		count(c, COUNT_SWITCHES_LOST, 1);
		return;
	}
	__sync_fetch_and_add(&sum->value, more->value);
	__sync_fetch_and_add(&sum->enabled_ns, more->enabled_ns);
	__sync_fetch_and_add(&sum->running_ns, more->running_ns);
}

/* Without a thread, because it is not followed, the counts are charged to none. */
static __noinline int split_counters(struct counters *c, struct thread *t)
{
	u32 cpu = bpf_get_smp_processor_id(), i;
	struct split_counts *last = bpf_map_lookup_elem(&split_last, &cpu);

	if (!last)
		return 0;
	for (i = 0; i < MAX_SPLIT_EVENTS; i++) {
		struct event_count now = {}, before;
		long error;

		if (i >= split_by_process)
			break;
		error = bpf_perf_event_read_value(&split_events, i * possible_cpus + cpu, (void *)&now, sizeof(now));
		if (error) {
			/* The next reading counts as the first one. Otherwise its thread would be charged with counts
			 * of other threads. */
			last->at[i] = now;
			/* User space knows which events are not open on this CPU. */
			if (error != -ENOENT)
				count(c, COUNT_READS_FAILED, 1);
			continue;
		}
		before = last->at[i];
		last->at[i] = now;
		/* The first reading on this CPU. */
		if (!before.enabled_ns || !t)
			continue;
		now.value -= before.value;
		now.enabled_ns -= before.enabled_ns;
		now.running_ns -= before.running_ns;
		charge(c, t, i, &now);
	}
	return 0;
}

#endif
