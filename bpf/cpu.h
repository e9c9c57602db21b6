/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Samples: one for each period of the clock or of another event, by one program for each context in which events come.
 * They change hash tables, so an event must not come as an NMI where the locks of tables do not notice that this CPU
 * holds them already (before 5.11): ARCHITECTURE.md, Decisions.
 */
#ifndef PERF_AGENT_CPU_H
#define PERF_AGENT_CPU_H

#include "deferred.h"
#include "filter.h"
#include "processes.h"
#include "walk_current.h"

/* What is known of a process. Caches are cold at sample time: a copy of our own costs less than the table `procs`. */
static __always_inline struct cached_proc *cached_proc(struct sampler_state *s, u32 pid)
{
	struct cached_proc *cached = &s->procs[pid & (CACHED_PROCS - 1)];
	/* Before the look-up: a change in between must make the copy invalid. */
	u64 changes = changes_of_procs();
	struct proc *known;

	if (cached->pid == pid && cached->changes == changes)
		return cached;
	known = bpf_map_lookup_elem(&procs, &pid);
	cached->pid = pid;
	cached->changes = changes;
	cached->known = known != NULL;
	if (known) {
		/* Copies do not outlast an epoch: it counts as a change. */
		note_process(known);
		cached->proc = *known;
	}
	return cached;
}

/* The process of a sample at its first sight, while the whole system is recorded. False: it is lost. */
static __always_inline bool first_sight(struct counters *c, u32 pid, struct proc *proc)
{
	struct proc *known;

	/* A thread that is dying adopts no process: process_exit has run already and would not remove it again. */
	if (has_no_memory() || is_exiting())
		return true;
	known = adopt_process(c, pid, 0, true);
	if (!known)
		return false;
	*proc = *known;
	return true;
}

/* Whether the program leaves this event out, because it takes a sample at each Nth one. */
static __always_inline bool is_passed_over(struct sampler_state *s)
{
	if (sample_every <= 1)
		return false;
	s->passed++;
	if (s->passed < sample_every)
		return true;
	s->passed = 0;
	return false;
}

/*
 * Sends a sample that was taken at `pc` and added to the sums under `key`. A function of its own, because of its room
 * on the stack.
 */
static __noinline int send_single(struct sampler_state *s, struct sample *sample, u64 key, u64 pc)
{
	struct single_with_value both = {.single.message = {.pid = sample->pid,
							    .tid = sample->tid,
							    .hash = key,
							    .exec_id = pc,
							    .event = sample->event,
							    .time = bpf_ktime_get_ns()},
					 .second = sample->value};

	send_one(s, &both.single, 1, sizeof(both.second));
	return 0;
}

/*
 * A sample of the current thread. An event of perf has registers and comes once in a period; a tracepoint has none, and
 * comes each time.
 */
static __always_inline int take_sample(void *ctx, enum sampler_context context, bool is_perf_event, bool at_return)
{
	struct sample sample = {.slot = slot_of(context), .event = sampled_event, .at_return = at_return};
	struct cached_proc *cached;
	struct sampler_state *s;
	struct proc proc = {};
	struct counters *c;
	u64 key;
	u32 end;

	s = state_at(sample.slot);
	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	/* Periods that are missing here were not run. */
	s->ticks++;
	if (!current_numbers(&sample.pid, &sample.tid)) {
		s->idle_ticks++;
		return 0;
	}
	cached = cached_proc(s, sample.pid);
	/* Keep the path above minimal: most samples are not ours. */
	if (cached->known ? cached->proc.flags & PROC_WAKER : !whole_system)
		return 0;
	if (has_filters() && !passes_filters((void *)bpf_get_current_task(), sample.tid))
		return 0;
	if (!is_perf_event && is_passed_over(s))
		return 0;
	/* Each event has slots of its own, and with them counters. */
	begin_run(s, sample.slot, EVENT_CLOCK);
	c = counters_in(s);
	if (cached->known) {
		proc = cached->proc;
	} else if (!sample.pid) {
		count(c, COUNT_OUTSIDE_NAMESPACE, 1);
		return 0;
	} else if (!first_sight(c, sample.pid, &proc)) {
		return 0;
	}
	sample.exec_id = proc.exec_id;
	if (has_value())
		take_value(ctx, c, &sample.value);
	end = walk_current(s, context, &proc, &sample);
	if (send_unwalked(ctx, s, &sample, end, 0)) {
		end_walk(s, &sample);
		return 0;
	}
	key = add_sample(s, &sample, s->walk.hash, end, s->walk.total);
	end_walk(s, &sample);
	if (single_samples && key)
		send_single(s, &sample, key,
			    is_perf_event ? REGS_PC((struct pt_regs *)ctx) : s->walk.start_pc & FRAME_PC);
	return 0;
}

/* Timers. */
SEC("perf_event")
int cpu_sample(void *ctx)
{
	return take_sample(ctx, CONTEXT_HARDIRQ, true, false);
}

/*
 * What the kernel itself counts, such as page faults and switches: the current thread does it, and the kernel turns
 * preemption off for the program.
 */
SEC("perf_event")
int task_sample(void *ctx)
{
	return take_sample(ctx, CONTEXT_TASK, true, false);
}

/* Events of the hardware. */
SEC("perf_event")
int nmi_sample(void *ctx)
{
	return take_sample(ctx, CONTEXT_ANY, true, false);
}

/*
 * The result decides for all users of the tracepoint whether they get the event: with 0, `perf record` beside us would
 * miss it.
 */
SEC("tracepoint")
int tracepoint_sample(void *ctx)
{
	take_sample(ctx, CONTEXT_ANY, false, false);
	return 1;
}

#endif
