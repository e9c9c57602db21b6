/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The scheduler's programs: threads leave CPUs, come back, are woken; and the begin and end of all that. */
#ifndef PERF_AGENT_SCHED_H
#define PERF_AGENT_SCHED_H

#include "counters.h"
#include "offcpu.h"
#include "sched_stats.h"

/*
 * The kernel does not report every switch. (Seen on 6.18: it reported no switch away from the threads of one process,
 * so that the threads after them came unseen, though no run of this program was skipped.) A thread that leaves a CPU
 * and was not seen to come has run for as long as the scheduler has accounted; until then it was off the CPU.
 */
static __always_inline void came_unseen(struct sampler_state *s, struct thread *t, struct task_struct *task, u64 now)
{
	u64 ran = task->se.sum_exec_runtime - t->ran;
	u64 came = now - ran;

	if (came < t->since || came > now)
		came = t->since;
	/* The seam record says that it was off its CPU at the seam. */
	if (t->since < s->seam_ns && came < s->seam_ns)
		came = s->seam_ns;
	/* Neither the slice nor the wait before it is known well enough. */
	if (sched_stats)
		count(counters_in(s), COUNT_CAME_UNSEEN, 1);
	end_interval(s, task, t, came);
	t->state = OFF_NONE;
	t->since = came;
	t->flags |= THREAD_CUT;
}

/*
 * Everything beside the walk is in functions of its own: the verifier limits the stack of a chain of calls to 512
 * bytes, and the walk needs the most.
 */
static __noinline int leave(struct sampler_state *s, struct thread *t, struct task_struct *task, u64 now, u32 off)
{
	struct counters *c = counters_in(s);

	if (t->state != OFF_NONE && t->since)
		came_unseen(s, t, task, now);
	if (wall_clock && t->since)
		add_on_cpu_time(s, task, t, now);
	if (wall_clock && task->flags & PF_EXITING)
		add_life(s, t, now);
	if (sched_stats && t->since)
		add_slice(c, t, now - t->since, !(t->flags & THREAD_CUT));
	if (sched_stats)
		add_switch(c, t, off);
	t->ran = task->se.sum_exec_runtime;
	return 0;
}

static __always_inline void switched_out(void *ctx, struct sampler_state *s, struct thread *t, struct task_struct *task,
					 u32 off, u64 now)
{
	leave(s, t, task, now, off);
	t->state = off;
	t->since = now;
	t->runnable = off == OFF_PREEMPTED ? now : 0;
	t->flags &= ~THREAD_CUT;
	t->key = 0;
	if (state_is(walked_states, off))
		take_stack(ctx, s, t, off);
	if (locks) {
		struct lock_run *l = begin_lock_run(s, t, task, off);

		leave_for_lock(s->slot);
		t->own_name = l->own_name;
		t->lock = l->lock;
		t->owner = l->owner;
		t->lock_kind = l->kind;
	}
}

/* A thread comes to a CPU, and no program saw it leave the last one. What it did meanwhile is not known. */
static __always_inline void lose_unseen(struct sampler_state *s, struct thread *t)
{
	if (s->gathers)
		note_seam(s, t, 0);
	count(counters_in(s), COUNT_LOST_UNSEEN, 1);
}

static __noinline int switched_in(struct sampler_state *s, struct thread *t, struct task_struct *task, u64 now)
{
	struct counters *c = counters_in(s);

	if (sched_stats)
		add_arrival(c, t, now);
	if (t->state != OFF_NONE)
		end_interval(s, task, t, now);
	else if (t->since)
		lose_unseen(s, t);
	if (wall_clock && task->flags & PF_EXITING)
		add_life(s, t, now);
	t->state = OFF_NONE;
	t->since = now;
	t->runnable = 0;
	t->waker = 0;
	t->released = 0;
	t->flags &= ~(THREAD_ASLEEP | THREAD_CUT);
	if (locks) {
		begin_lock_run(s, t, task, OFF_NONE);
		note_holder(s->slot);
	}
	return 0;
}

/* The last switch of a thread begins no interval. */
static __always_inline void ended(struct sampler_state *s, struct thread *t, struct task_struct *task, u64 now)
{
	leave(s, t, task, now, OFF_BLOCKED);
	if (locks)
		forget_holder(t);
	t->since = 0;
	t->key = 0;
	forget_thread(task);
}

/* In which state a thread leaves its CPU. */
static __always_inline u64 state_on_leaving(u64 *ctx, struct task_struct *prev)
{
	if (ctx[0] & 1)
		return 0; /* preempted on its way to sleep */
	if (bpf_core_type_exists(btf_trace_sched_switch___since_5_18))
		return (u32)ctx[3];
	return state_of(prev);
}

/* With -a a thread without a record is usually outside of the agent's PID namespace. Counts the intervals that are not
 * recorded for that reason. */
static __noinline int left_outside(struct counters *c, struct task_struct *prev, u64 left)
{
	if (prev->pid && !(left & TASK_DEAD) && state_is(profiled_states, off_state_of(left)) &&
	    number_in_namespace(prev->group_leader) == PID_OUTSIDE)
		count(c, COUNT_OUTSIDE_NAMESPACE, 1);
	return 0;
}

SEC("tp_btf/sched_switch")
int thread_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct thread *t = chosen_thread_of(prev), *comes = chosen_thread_of(next);
	bool sees_all = split_by_process || (whole_system && pid_namespace);
	struct sampler_state *s;
	u64 now, left;
	u32 slot;

	if (has_filters() && !t && state_on_leaving(ctx, prev) & TASK_DEAD)
		forget_thread(prev);
	/* Keep the path above minimal: most switches are not ours. */
	if (!t && !sees_all) {
		/* Two checks: the compiler would make one of both pointers, which the kernel refuses. */
		barrier_var(comes);
		if (!comes)
			return 0;
	}
	slot = slot_of(CONTEXT_TASK);
	s = state_at(slot);
	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	now = bpf_ktime_get_ns();
	begin_run_of_threads(s, slot, now);
	if (split_by_process)
		split_counters(counters_in(s), t);
	if (t) {
		left = state_on_leaving(ctx, prev);
		if (left & TASK_DEAD)
			ended(s, t, prev, now);
		else
			switched_out(ctx, s, t, prev, off_state_of(left), now);
	} else if (whole_system && pid_namespace) {
		left_outside(counters_in(s), prev, state_on_leaving(ctx, prev));
	}
	if (comes)
		switched_in(s, comes, next, now);
	return 0;
}

static __always_inline int woken(struct task_struct *task)
{
	struct thread *t = thread_of(task);

	/* A thread that is on a CPU, or was woken already, does not begin to wait. */
	if (t && t->state != OFF_NONE && !t->runnable)
		t->runnable = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(thread_wakeup, struct task_struct *task)
{
	return woken(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(thread_wakeup_new, struct task_struct *task)
{
	return woken(task);
}

#endif
