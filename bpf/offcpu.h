/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Off-CPU: when a thread leaves its CPU its stack is walked and made known to user space; when it comes back, the time
 * between is added to the sums of that stack.
 */
#ifndef PERF_AGENT_OFFCPU_H
#define PERF_AGENT_OFFCPU_H

#include "deferred.h"
#include "lock_waits.h"
#include "processes.h"
#include "walk_current.h"

/* A stretch is lost. It counts if the off-CPU profile shows its state. A stretch for the wall-clock profile alone is
 * missing from the sum of that profile. */
static __always_inline void lose(struct counters *c, u32 state, u32 cause)
{
	if (state_is(profiled_states, state))
		count(c, cause, 1);
}

/* Adds a stretch of time to sums whose stack user space knows. */
static __always_inline bool add_time(struct sampler_state *s, u32 state, u64 key, u64 value, u64 waited)
{
	struct total *total = find_total(side_of(s), key);
	long error;

	if (!total) {
		error = enter_values(side_of(s), key, SCHEMA_SCHEDULER, 1, value, waited);
		if (!error)
			return true;
		total = find_total(side_of(s), key);
		if (!total) {
			lose(counters_in(s), state, cause_of(error, COUNT_LOST_MAP_FULL));
			return false;
		}
	}
	add_values(total, SCHEMA_SCHEDULER, 1, value, waited);
	return true;
}

/* Makes the stack of a key known to user space, unless its sums are there already. False: it is lost. */
static __always_inline bool make_known(struct sampler_state *s, struct sample *sample, u64 key, u32 end,
				       u32 user_frames)
{
	struct counters *c = counters_in(s);
	long error;

	if (find_total(side_of(s), key))
		return true;
	if (!send_stack(sample, key, end, user_frames)) {
		lose(c, sample->state, COUNT_LOST_RING_FULL);
		return false;
	}
	count(c, COUNT_STACKS_SENT, 1);
	error = enter_sums(side_of(s), key, 0, 0, 0);
	if (!error || find_total(side_of(s), key))
		return true;
	lose(c, sample->state, cause_of(error, COUNT_LOST_MAP_FULL));
	return false;
}

/* Copies the record of the process of the current thread, which leaves its CPU. False: there is none, and the stretch
 * is lost. */
static __always_inline bool proc_of(struct counters *c, struct thread *t, u32 off, struct proc *proc)
{
	struct proc *known = bpf_map_lookup_elem(&procs, &t->pid);

	/* The last thread of a process that has given back its memory still blocks, as on closing files. */
	if (!known && (has_no_memory() || is_exiting()))
		return true;
	if (!known && whole_system)
		known = adopt_process(c, t->pid, 0, state_is(profiled_states, off));
	else if (!known)
		lose(c, off, COUNT_LOST_NO_MEMORY);
	if (!known)
		return false;
	note_process(known);
	*proc = *known;
	return true;
}

/* The current thread leaves its CPU: walks its stack, and remembers the key for its time off the CPU. */
static __always_inline void take_stack(void *ctx, struct sampler_state *s, struct thread *t, u32 off)
{
	struct sample sample = {.slot = s->slot, .pid = t->pid, .tid = t->tid, .event = EVENT_SCHEDULER, .state = off};
	struct proc proc = {};
	u64 key;
	u32 end;

	if (!proc_of(counters_in(s), t, off, &proc))
		return;
	sample.exec_id = proc.exec_id;
	end = walk_current(s, CONTEXT_TASK, &proc, &sample);
	if (send_unwalked(ctx, s, &sample, end, t->since)) {
		/* A key of its own: only the walk in user space tells which stack it is. */
		t->key = own_key(t->pid, t->tid, t->since, off);
	} else {
		key = key_of(&sample, s->walk.hash, end);
		if ((key == t->seen && t->epoch == s->changes) || make_known(s, &sample, key, end, s->walk.total)) {
			t->seen = key;
			t->epoch = s->changes;
			t->key = key;
		}
	}
	end_walk(s, &sample);
}

/* One key for both stacks, which is made known to user space. If that fails, the key of the blocked stack. */
static __always_inline u64 woken_key(struct sampler_state *s, struct thread *t)
{
	u64 key = key_in(hash_mix(hash_mix(seed, t->key), t->waker), t->key);
	struct {
		struct message message;
		struct section head;
		struct woken woken;
	} pair = {
	    .head = {.kind = SECTION_WOKEN, .bytes = sizeof(pair.woken)},
	    .message = {.kind = MESSAGE_WOKEN,
			.pid = t->pid,
			.tid = t->tid,
			.hash = key,
			.bytes = sizeof(pair) - sizeof(pair.message),
			.event = EVENT_SCHEDULER,
			.state = t->state},
	    .woken = {.blocked = t->key, .waker = t->waker},
	};

	if (find_total(side_of(s), key))
		return key;
	if (send_beside_life(&pair, sizeof(pair), sizeof(pair))) {
		count(counters_in(s), COUNT_WAKERS_LOST, 1);
		return t->key;
	}
	return key;
}

/*
 * Sends an interval of the off-CPU profile that ended at `now`, as a whole: also one that a seam split. `waker`: whose
 * sum it is in besides that of the blocked stack; 0: none.
 */
static __noinline int send_interval(struct sampler_state *s, struct thread *t, u64 key, u64 waker, u64 now)
{
	struct single single = {.message = {.pid = t->pid,
					    .tid = t->tid,
					    .hash = key,
					    .exec_id = waker,
					    .event = EVENT_SCHEDULER,
					    .state = t->state,
					    .time = now}};

	send_one(s, &single, now - t->since, 0);
	return 0;
}

/* The key of stretches of a thread that have no stack. */
static __always_inline u64 stackless_key(struct sampler_state *s, struct task_struct *task, struct thread *t, u32 state,
					 u32 end)
{
	struct sample sample = {
	    .slot = s->slot, .pid = t->pid, .tid = t->tid, .event = EVENT_SCHEDULER, .state = state, .task = task};
	struct proc *proc = bpf_map_lookup_elem(&procs, &t->pid);
	u64 key;

	if (proc)
		sample.exec_id = proc->exec_id;
	key = key_of(&sample, seed, end);
	return make_known(s, &sample, key, WALK_NONE, 0) ? key : 0;
}

/* The key of the wait from the making of a thread to its first moment on a CPU. */
static __always_inline u64 first_wait_key(struct sampler_state *s, struct task_struct *task, struct thread *t)
{
	return stackless_key(s, task, t, STATE_NOT_RUN_YET, WALK_NONE);
}

static __always_inline u64 on_cpu_key(struct sampler_state *s, struct task_struct *task, struct thread *t)
{
	return stackless_key(s, task, t, STATE_ON_CPU, 0);
}

static __always_inline bool is_first_wait(struct thread *t)
{
	return t->flags & THREAD_NEW && state_is(recorded_states, STATE_NOT_RUN_YET);
}

/* A thread comes back to a CPU, or the capture ends. */
static __always_inline void end_interval(struct sampler_state *s, struct task_struct *task, struct thread *t, u64 now)
{
	u64 elapsed = now - t->since, key, blocked, from;
	bool for_lock = locks && t->lock;
	struct counters *c = counters_in(s);

	if (is_first_wait(t))
		t->seen = t->key = first_wait_key(s, task, t);
	t->flags &= ~THREAD_NEW;
	key = t->key;
	if (s->gathers) {
		open_lock_at_seam(s, t, task);
		note_seam(s, t, key);
	}
	if (for_lock) {
		begin_lock_run(s, t, task, t->state)->now = now;
		if (end_lock_wait(s->slot))
			add_lock_length(s->slot);
		t->lock = 0;
		t->owner = 0;
	}
	if (!key)
		return;
	if (!state_is(recorded_states, t->state)) {
		/* Its stack was walked because it might hold a lock, or wait for one. */
		t->key = 0;
		if (key != t->seen && !for_lock)
			enter_sums(side_of(s), key, 0, SUMS_END, 0);
		return;
	}
	if (elapsed < min_block_ns) {
		t->key = 0;
		/* User space has to know that no sum follows under a key that only this stretch has. */
		if (key != t->seen)
			enter_sums(side_of(s), key, 0, SUMS_END, 0);
		count(c, COUNT_SKIPPED_MIN_BLOCK, 1);
		count(c, COUNT_SKIPPED_MIN_BLOCK_NS, elapsed);
		return;
	}
	blocked = key;
	if (wakers && t->waker && t->state != OFF_PREEMPTED)
		key = woken_key(s, t);
	t->key = 0;
	from = rest_of(s, t->since, min_block_ns);
	if (!add_time(s, t->state, key, now - from, waited_in(t, from, now)) || !state_is(profiled_states, t->state))
		return;
	count(c, COUNT_SAMPLES, 1);
	if (single_intervals && elapsed >= single_min_ns)
		send_interval(s, t, blocked, key == blocked ? 0 : t->waker, now);
}

/* A stretch on a CPU has ended: it is part of a wall-clock profile, under the process or thread alone. */
static __always_inline void add_on_cpu_time(struct sampler_state *s, struct task_struct *task, struct thread *t,
					    u64 now)
{
	u64 key = on_cpu_key(s, task, t);

	if (s->gathers)
		note_seam(s, t, key);
	if (key)
		add_time(s, STATE_ON_CPU, key, now - rest_of(s, t->since, 0), 0);
}

#endif
