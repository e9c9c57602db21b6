/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Locks: the keys of waits for them, and which thread holds them. The key of a wait depends on the stack of the waiter,
 * the lock, the stack of its owner and that of the waker. User space learns from a message what a key stands for.
 *
 * The functions with a slot are global, so that the verifier looks at each once, and not at each path that leads to it.
 * They take nothing but numbers: what they work on is in the `lock_run` of the slot.
 */
#ifndef PERF_AGENT_LOCKS_H
#define PERF_AGENT_LOCKS_H

#include "futex.h"
#include "threads.h"

/*
 * What a followed thread does now, for those that wait for a lock that it holds. Under the name by which programs know
 * it: its number in its own PID namespace, and that namespace.
 */
struct lock_holder {
	u64 task;  /* address of its task */
	u64 stack; /* key of the stack with which it left its CPU; 0: it is on one, or the stack is not known */
	u32 pid;
	u32 tid;
	u32 state; /* enum off_state */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct lock_holder);
} lock_holders SEC(".maps");

#define NAMESPACE_SHIFT 32

/* The name of a thread in `lock_holders`; 0: it has none. */
static __always_inline u64 own_name_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid;

	if (level > MAX_NAMESPACE_LEVELS || bpf_core_read(&upid, sizeof(upid), &pid->numbers[level]))
		return 0;
	return (u64)BPF_CORE_READ(upid.ns, ns.inum) << NAMESPACE_SHIFT | (u32)upid.nr;
}

/* Makes the thread that of the functions below. */
static __always_inline struct lock_run *begin_lock_run(struct sampler_state *s, struct thread *t,
						       struct task_struct *task, u32 state)
{
	struct lock_run *l = &s->lock_run;

	l->task = (u64)task;
	l->own_name = t->own_name;
	l->stack = t->key;
	l->lock = t->lock;
	l->owner = t->owner;
	l->waker = t->waker;
	l->since = t->since;
	l->pid = t->pid;
	l->tid = t->tid;
	l->state = state;
	l->kind = t->lock_kind;
	l->released = t->waker && t->released;
	l->length = 0;
	return l;
}

static __always_inline void note_holder_of(struct lock_run *l, u64 flags)
{
	struct lock_holder first = {}, *holder;
	u64 name;

	if (!l->own_name)
		l->own_name = own_name_of((struct task_struct *)l->task);
	name = l->own_name;
	if (!name)
		return; /* it is about to be reaped, and holds nothing */
	holder = bpf_map_lookup_elem(&lock_holders, &name);
	if (holder && flags == BPF_NOEXIST)
		return;
	if (holder) {
		holder->stack = l->stack;
		holder->state = l->state;
		return;
	}
	first.task = l->task;
	first.stack = l->stack;
	first.pid = l->pid;
	first.tid = l->tid;
	first.state = l->state;
	if (bpf_map_update_elem(&lock_holders, &name, &first, BPF_NOEXIST) == -E2BIG)
		count_alone(EVENT_SCHEDULER, COUNT_OWNERS_LOST, 1);
}

/* Notes what the thread does now. */
__noinline int note_holder(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	if (s)
		note_holder_of(&s->lock_run, BPF_ANY);
	return 0;
}

/* The same for an iterator, which knows less than a program that has seen a switch. */
__noinline int note_first_holder(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	if (s)
		note_holder_of(&s->lock_run, BPF_NOEXIST);
	return 0;
}

static __always_inline void forget_holder(struct thread *t)
{
	u64 name = t->own_name;

	if (name)
		bpf_map_delete_elem(&lock_holders, &name);
}

/* The key of the thread's wait; of one that goes on, or that nobody ended, the waker is 0. */
static __always_inline u64 lock_wait_key(struct lock_run *l)
{
	u64 key = hash_mix(hash_mix(hash_mix(seed, l->stack), l->lock), l->owner);

	key = hash_mix(hash_mix(key, l->waker), l->kind | (u64)l->released << 32);
	return key_in(key, kind_of(EVENT_LOCK, OFF_BLOCKED));
}

/* The key of all waits of this length with this stack for this lock. */
static __always_inline u64 lock_length_key(struct lock_run *l)
{
	u64 key = hash_mix(hash_mix(hash_mix(seed, l->stack), l->lock), l->length);

	return key_in(key, kind_of(EVENT_LOCK_LENGTH, OFF_BLOCKED));
}

#define LOCK_WORDS (sizeof(struct lock_wait) / 8)

/* Tells user space what a key of the thread's wait stands for. False: that does not fit into the ring. */
static __always_inline bool tell_lock(u32 slot, struct lock_run *l, u64 key)
{
	/* The stack of the program has no room for a message. No other message is being put together. */
	struct outbox *box = outbox_at(slot);
	u32 pid = l->pid;
	struct proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (!box)
		return false;
	box->message.kind = MESSAGE_LOCK;
	box->message.pid = pid;
	box->message.tid = l->tid;
	box->message.end = 0;
	box->message.hash = key;
	box->message.exec_id = proc ? proc->exec_id : 0;
	box->message.bytes = (1 + LOCK_WORDS) * 8;
	box->message.state = OFF_BLOCKED;
	box->message.event = l->length ? EVENT_LOCK_LENGTH : EVENT_LOCK;
	box->message.time = 0;
	box->words[0] = section_head(SECTION_LOCK, 0, LOCK_WORDS * 8);
	box->words[1] = l->stack;
	box->words[2] = l->length ? 0 : l->owner;
	box->words[3] = l->length ? 0 : l->waker;
	box->words[4] = l->lock;
	box->words[5] = l->kind | (u64)l->released << 32;
	box->words[6] = l->length;
	return !send_beside_life(box, sizeof(struct message) + (1 + LOCK_WORDS) * 8, sizeof(*box));
}

/* Tells user space what the key of a wait that goes on stands for, and leaves the key in the run. */
__noinline int tell_open_lock(u32 slot)
{
	struct sampler_state *s = state_at(slot);
	struct lock_run *l;

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	l = &s->lock_run;
	l->waker = 0;
	l->released = 0;
	l->open_key = lock_wait_key(l);
	if (!tell_lock(slot, l, l->open_key)) {
		count(counters_in(s), COUNT_SEAMS_LOST, 1);
		l->open_key = 0;
	}
	return 0;
}

#endif
