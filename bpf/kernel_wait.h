/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What is known of threads that wait for a lock of the kernel. */
#ifndef PERF_AGENT_KERNEL_WAIT_H
#define PERF_AGENT_KERNEL_WAIT_H

#include "offcpu.h"

struct kernel_wait {
	u64 lock; /* its address */
	u64 since;
	u64 stack; /* key of the stack of the thread; 0: it is lost */
	u64 waker; /* key of the stack of the thread that woke it last; 0: none has */
	u32 pid;
	u32 tid;
	u32 kind; /* enum lock_kind */
	u32 pad;
};

/* By the number of the thread in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kernel_wait);
} kernel_waits SEC(".maps");

static __always_inline struct kernel_wait *kernel_wait_of(u32 id)
{
	return bpf_map_lookup_elem(&kernel_waits, &id);
}

/* Whether the current thread is recorded, and its numbers. With the whole system as target, also if its process is not
 * known yet. */
static __always_inline bool is_current_recorded(u32 *pid, u32 *tid)
{
	struct proc *proc;

	if (!current_numbers(pid, tid) || !*pid)
		return false;
	proc = bpf_map_lookup_elem(&procs, pid);
	if (proc ? proc->flags & PROC_WAKER : !whole_system)
		return false;
	return !has_filters() || passes_filters((void *)bpf_get_current_task(), *tid);
}

/*
 * The key of the stack of the current thread, with which it begins to wait at `since`; made known to user space. 0: it
 * is lost. For programs that have claimed their state.
 */
static __always_inline u64 waiting_stack(void *ctx, struct sampler_state *s, enum sampler_context context,
					 struct sample *sample, u64 since)
{
	struct proc *known = bpf_map_lookup_elem(&procs, &sample->pid), proc = {};
	u64 key;
	u32 end;

	if (!known && whole_system && !has_no_memory() && !is_exiting())
		known = adopt_process(counters_in(s), sample->pid, 0, false);
	if (known) {
		note_process(known);
		proc = *known;
	}
	sample->exec_id = proc.exec_id;
	end = walk_current(s, context, &proc, sample);
	if (send_unwalked(ctx, s, sample, end, since)) {
		end_walk(s, sample);
		return own_key(sample->pid, sample->tid, since, sample->state);
	}
	key = key_of(sample, s->walk.hash, end);
	if (!make_known(s, sample, key, end, s->walk.total))
		key = 0;
	end_walk(s, sample);
	return key;
}

#endif
