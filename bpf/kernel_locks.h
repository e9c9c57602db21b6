/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Waits for locks of the kernel, by its tracepoints lock:contention_begin and lock:contention_end (Linux 5.19). They
 * come while the kernel waits for any lock, those of tables and rings of these programs among them; so they are
 * attached only where such locks notice that this CPU holds them (6.15).
 *
 * The kernel tells nothing twice but the begin of a wait for a mutex: first it spins, then it sleeps. An interrupt may
 * wait for a spinlock while its thread waits for another lock: then the outer wait counts, unless it is one that spins.
 */
#ifndef PERF_AGENT_KERNEL_LOCKS_H
#define PERF_AGENT_KERNEL_LOCKS_H

#include "kernel_wait.h"

/* include/trace/events/lock.h */
#define CONTENTION_SPIN (1U << 0)
#define CONTENTION_READ (1U << 1)
#define CONTENTION_WRITE (1U << 2)
#define CONTENTION_RT (1U << 3)
#define CONTENTION_PERCPU (1U << 4)
#define CONTENTION_MUTEX (1U << 5)

static __always_inline u32 kernel_lock_kind(u32 flags)
{
	if (flags & CONTENTION_MUTEX)
		return LOCK_KERNEL_MUTEX;
	if (flags & CONTENTION_RT)
		return LOCK_KERNEL_RT;
	if (flags & CONTENTION_PERCPU)
		return LOCK_KERNEL_PERCPU;
	if (flags & (CONTENTION_READ | CONTENTION_WRITE))
		return flags & CONTENTION_SPIN ? LOCK_KERNEL_RWLOCK : LOCK_KERNEL_RWSEM;
	return flags & CONTENTION_SPIN ? LOCK_KERNEL_SPIN : LOCK_KERNEL_SEMAPHORE;
}

static __always_inline bool is_spinning(u32 kind)
{
	return kind == LOCK_KERNEL_SPIN || kind == LOCK_KERNEL_RWLOCK;
}

/* The state of this CPU, claimed. NULL: another program has it, and the wait is lost. */
static __always_inline struct sampler_state *claim_for_kernel_lock(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	if (s && claim(&s->claims))
		return s;
	count_alone(EVENT_SCHEDULER, COUNT_LOCKS_LOST, 1);
	return NULL;
}

/* The current thread begins to wait. */
static __noinline int begin_kernel_wait(void *ctx, struct kernel_wait *wait)
{
	struct sample sample = {.slot = slot_of(CONTEXT_KERNEL_LOCK),
				.pid = wait->pid,
				.tid = wait->tid,
				.event = EVENT_SCHEDULER,
				.state = OFF_BLOCKED};
	struct sampler_state *s = claim_for_kernel_lock(sample.slot);

	if (!s)
		return 1;
	begin_run(s, sample.slot, EVENT_SCHEDULER);
	wait->stack = waiting_stack(ctx, s, CONTEXT_KERNEL_LOCK, &sample, wait->since);
	release_slot(s);
	return 0;
}

SEC("tp_btf/contention_begin")
int kernel_lock_begins(u64 *ctx)
{
	u32 id = (u32)bpf_get_current_pid_tgid();
	struct kernel_wait wait = {.lock = ctx[0], .kind = kernel_lock_kind(ctx[1])}, *outer;

	if (!is_current_recorded(&wait.pid, &wait.tid))
		return 0;
	outer = kernel_wait_of(id);
	if (outer) {
		if (outer->lock == wait.lock || (is_spinning(wait.kind) && !is_spinning(outer->kind)))
			return 0;
		/* It is inside of a wait that spins, or the end of that was not seen. */
		count_alone(EVENT_SCHEDULER, COUNT_LOCKS_LOST, 1);
	}
	wait.since = bpf_ktime_get_ns();
	if (begin_kernel_wait(ctx, &wait))
		return 0;
	if (bpf_map_update_elem(&kernel_waits, &id, &wait, BPF_ANY))
		count_alone(EVENT_SCHEDULER, COUNT_LOCKS_LOST, 1);
	return 0;
}

/* Adds the wait of a thread that is over. */
static __noinline int end_kernel_wait(struct kernel_wait *wait)
{
	u32 slot = slot_of(CONTEXT_KERNEL_LOCK);
	struct sampler_state *s = claim_for_kernel_lock(slot);
	struct lock_run *l;

	if (!s)
		return 0;
	begin_run(s, slot, EVENT_SCHEDULER);
	l = &s->lock_run;
	*l = (struct lock_run){.stack = wait->stack,
			       .lock = wait->lock,
			       .waker = wait->waker,
			       .since = wait->since,
			       .now = bpf_ktime_get_ns(),
			       .pid = wait->pid,
			       .tid = wait->tid,
			       .kind = wait->kind,
			       .released = wait->waker != 0};
	if (end_lock_wait(slot))
		add_lock_length(slot);
	release_slot(s);
	return 0;
}

SEC("tp_btf/contention_end")
int kernel_lock_ends(u64 *ctx)
{
	u32 id = (u32)bpf_get_current_pid_tgid();
	struct kernel_wait *known = kernel_wait_of(id), wait;

	if (!known || known->lock != ctx[0])
		return 0;
	wait = *known;
	bpf_map_delete_elem(&kernel_waits, &id);
	end_kernel_wait(&wait);
	return 0;
}

#endif
