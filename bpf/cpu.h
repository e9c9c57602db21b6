/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * On-CPU: one sample for each period of an event. It changes hash tables, so the event must not come as an NMI where
 * their locks do not notice that this CPU holds them already (before 5.11): ARCHITECTURE.md, Decisions.
 */
#ifndef PERF_AGENT_CPU_H
#define PERF_AGENT_CPU_H

#include "deferred.h"
#include "processes.h"
#include "walk_current.h"

/* What is known of a process, from this CPU's memory as long as nothing changed: `procs` lies further away. */
static __always_inline struct near_proc *nearby(u32 cpu, u32 pid)
{
	struct near_procs *procs_here = bpf_map_lookup_elem(&near, &cpu);
	/* Before the look at `procs`: a change in between is one too many. */
	u64 changes = changes_of_procs();
	struct near_proc *here;
	struct proc *known;

	if (!procs_here)
		return NULL;
	here = &procs_here->at[pid & (NEAR_PROCS - 1)];
	if (here->pid == pid && here->changes == changes)
		return here;
	known = bpf_map_lookup_elem(&procs, &pid);
	here->pid = pid;
	here->changes = changes;
	here->known = known != NULL;
	if (known)
		here->proc = *known;
	return here;
}

/* The process of a sample at its first sight, while the whole system is recorded. False: it is lost. */
static __always_inline bool first_sight(struct counters *c, u32 pid, struct proc *proc)
{
	struct proc *known;

	/* Nor one that is dying: its process has been forgotten already, and nobody would do so again. */
	if (has_no_memory())
		return true;
	known = adopt_process(c, pid, 0, true);
	if (!known)
		return false;
	*proc = *known;
	return true;
}

SEC("perf_event")
int cpu_sample(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), end;
	struct sample sample = {.state = cpu, .value = 1};
	struct proc proc = {};
	struct near_proc *here;
	struct counters *c;
	struct walk *w;

	if (!current_numbers(&sample.pid, &sample.tid))
		return 0; /* idle */
	here = nearby(cpu, sample.pid);
	/* Nothing before this point but what tells that a sample is none of ours: that is most of them. */
	if (!here || (here->known ? here->proc.flags & PROC_WAKER : !whole_system))
		return 0;
	c = counters_of(cpu);
	if (!c)
		return 0; /* unreachable: sized by the number of possible CPUs */
	if (here->known) {
		proc = here->proc;
	} else if (!sample.pid) {
		count(c, COUNT_OUTSIDE_NAMESPACE, 1);
		return 0;
	} else if (!first_sight(c, sample.pid, &proc)) {
		return 0;
	}
	sample.image = proc.image;
	end = walk_current(c, &proc, &sample);
	w = walk_at(sample.state);
	if (!w) {
		count(c, COUNT_LOST_NO_MEMORY, 1);
		return 0;
	}
	if (may_be_walked_later(end) && defer_walk(ctx, c, &sample, end, 0))
		return 0;
	count(c, COUNT_WALKS + end, 1);
	if (kernel_stacks)
		take_kernel_stack(ctx, &sample);
	add_sample(c, &sample, w->hash, end, w->total);
	return 0;
}

#endif
