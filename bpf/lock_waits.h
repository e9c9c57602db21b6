/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Waits for locks: a thread that leaves its CPU inside of a futex call waits for the futex, until it runs again. Its
 * wait is summed up by stack, lock, owner and waker, and by stack, lock and length.
 */
#ifndef PERF_AGENT_LOCK_WAITS_H
#define PERF_AGENT_LOCK_WAITS_H

#include "seam.h"

/* The begin of glibc's pthread_mutex_t (sysdeps/nptl/bits/struct_mutex.h), the same for all processors that are 64 bits
 * wide. */
struct glibc_mutex {
	u32 word;
	u32 count;
	u32 owner; /* the number of the thread */
	u32 users;
	u32 kind;
};

/* A mutex that threads wait for has this value, in glibc and elsewhere. */
#define MUTEX_CONTENDED 2
/* All bits that `kind` of a mutex of glibc can have (nptl/pthreadP.h), and more users than threads that there can be.
 */
#define MUTEX_KINDS 0x3ff
#define MUTEX_MAX_USERS (1 << 22)
/* musl's normal mutex holds this in place of the number of its owner. */
#define MUSL_BUSY 16

/*
 * The end of glibc's pthread_rwlock_t up to what is asked for (sysdeps/nptl/bits/struct_rwlock.h of both processors). A
 * thread that wants to read waits for the word before the first one while a writer has the lock, one that wants to
 * write for the first one while another writer has it or waits; then both are 3. The lock is aligned to 8 bytes.
 */
struct glibc_rwlock_end {
	u32 writers_futex;
	u32 pad[2];
	u32 writer; /* the number of the thread that writes; 0: none does */
	u32 shared;
};

#define RWLOCK_CONTENDED 3

/* The number of the thread that has a read-write lock of glibc for itself. 0: none, or it is not such a lock. */
static __noinline u32 writer_number(struct futex_call *call)
{
	struct glibc_rwlock_end end = {};
	/* The word of readers is at a multiple of 8, that of writers behind it. */
	u64 at = call->address & 7 ? call->address : call->address + 4;

	if (read_user(&end, sizeof(end), at) || end.pad[0] || end.pad[1] || end.shared > 1)
		return 0;
	return end.writer;
}

/*
 * The number of the thread that holds the lock, as the program knows it. 0: nobody, or it is not known. Locks of Rust
 * and normal ones of musl have no owner. What is no mutex hardly looks like one with a living thread of its process as
 * owner.
 */
static __always_inline u32 owner_number(struct futex_call *call, u32 kind)
{
	struct glibc_mutex mutex = {};
	u32 owner = call->value & FUTEX_TID;

	if (kind == LOCK_PI)
		return read_user(&mutex.word, sizeof(mutex.word), call->address) ? 0 : mutex.word & FUTEX_TID;
	if (call->value & FUTEX_WAITERS)
		return owner == MUSL_BUSY ? 0 : owner;
	if (call->value == RWLOCK_CONTENDED && kind == LOCK_BITSET)
		return writer_number(call);
	if (call->value != MUTEX_CONTENDED || read_user(&mutex, sizeof(mutex), call->address))
		return 0;
	if (mutex.kind & ~MUTEX_KINDS || !mutex.users || mutex.users > MUTEX_MAX_USERS)
		return 0;
	return mutex.owner;
}

/* The key of the stack of a thread that holds a lock, of which nothing is known but its state. 0: that cannot be told.
 */
static __always_inline u64 stackless_holder(struct sampler_state *s, struct lock_holder *holder)
{
	struct sample sample = {.slot = s->slot,
				.pid = holder->pid,
				.tid = holder->tid,
				.event = EVENT_SCHEDULER,
				.state = holder->state == OFF_NONE ? STATE_ON_CPU : holder->state,
				.task = (void *)holder->task};
	struct proc *proc = bpf_map_lookup_elem(&procs, &sample.pid);
	u64 key;

	if (proc)
		sample.exec_id = proc->exec_id;
	key = key_of(&sample, seed, 0);
	if (find_total(side_of(s), key))
		return key;
	if (!send_stack(&sample, key, WALK_NONE, 0)) {
		count(counters_in(s), COUNT_OWNERS_LOST, 1);
		return 0;
	}
	count(counters_in(s), COUNT_STACKS_SENT, 1);
	enter_sums(side_of(s), key, 0, 0, 0);
	return key;
}

/* The key of the stack of the thread that holds the lock for which the current thread waits; 0: not known. */
static __always_inline u64 owner_of(struct sampler_state *s, struct lock_run *l, struct futex_call *call)
{
	u32 number = owner_number(call, lock_kind_of(call));
	struct lock_holder *holder;
	u64 name;

	if (!number)
		return 0;
	name = (l->own_name >> NAMESPACE_SHIFT << NAMESPACE_SHIFT) | number;
	/* It waits for itself. */
	if (name == l->own_name)
		return l->stack;
	holder = bpf_map_lookup_elem(&lock_holders, &name);
	if (!holder || (call->operation & FUTEX_PRIVATE && holder->pid != l->pid))
		return 0;
	return holder->stack ? holder->stack : stackless_holder(s, holder);
}

/* The current thread leaves its CPU. Notes that, and for which lock it waits, if it does, and who holds it. */
__noinline int leave_for_lock(u32 slot)
{
	struct sampler_state *s = state_at(slot);
	struct futex_call call = {};
	struct lock_run *l;

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	l = &s->lock_run;
	note_holder_of(l, BPF_ANY);
	l->lock = 0;
	l->owner = 0;
	if (l->state != OFF_BLOCKED || !futex_call_in(current_saved_registers(), &call, true))
		return 0;
	l->kind = marked_kind_of(&call);
	if (l->kind == LOCK_NONE)
		return 0;
	l->lock = call.address;
	l->owner = owner_of(s, l, &call);
	return 0;
}

/* The same of a thread that slept when the capture began. Its memory is not that of the current thread: user space
 * reads who holds the lock. */
static __always_inline void note_lock_asleep(struct task_struct *task, struct thread *t)
{
	struct futex_call call = {};

	t->lock = 0;
	t->owner = 0;
	if (!futex_call_in(saved_registers(task), &call, false))
		return;
	t->lock_kind = marked_kind_of(&call);
	if (t->lock_kind != LOCK_NONE)
		t->lock = call.address;
}

/* The bucket of a length: see LENGTH_SUB_SHIFT. */
static __always_inline u32 length_bucket(u64 ns)
{
	u32 shift = 0, step;
	u64 rest = ns >> LENGTH_SUB_SHIFT;

	if (!rest)
		return ns;
	/* The position of the highest bit: each step halves what is left. */
	for (step = 32; step; step /= 2) {
		if (rest >> step) {
			shift += step;
			rest >>= step;
		}
	}
	return ((shift + 1) << LENGTH_SUB_SHIFT) + ((u32)(ns >> shift) & ((1 << LENGTH_SUB_SHIFT) - 1));
}

/* Adds a wait to the sums of a key. False: they have no room. */
static __always_inline bool add_lock_wait(struct sampler_state *s, struct lock_run *l, u64 key, u32 schema, u64 time,
					  u64 longest)
{
	struct total *total = find_total(side_of(s), key);

	if (!total) {
		if (!tell_lock(s->slot, l, key))
			return false;
		if (!enter_values(side_of(s), key, schema, 1, time, longest))
			return true;
		total = find_total(side_of(s), key);
		if (!total)
			return false;
	}
	add_values(total, schema, 1, time, longest);
	return true;
}

/* Adds the wait that has just been added to those of its length. */
__noinline int add_lock_length(u32 slot)
{
	struct sampler_state *s = state_at(slot);
	struct lock_run *l;

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	l = &s->lock_run;
	l->length = length_bucket(l->now - l->since) + 1;
	if (!add_lock_wait(s, l, lock_length_key(l), SCHEMA_LOCK_LENGTH, 0, 0))
		count(counters_in(s), COUNT_LENGTHS_LOST, 1);
	return 0;
}

/* The wait of the thread for a lock is over, or the capture is. 0: the wait is lost. */
__noinline int end_lock_wait(u32 slot)
{
	struct sampler_state *s = state_at(slot);
	struct lock_run *l;
	u64 time;

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	l = &s->lock_run;
	time = l->now - rest_of(s, l->since, 0);
	if (l->stack && add_lock_wait(s, l, lock_wait_key(l), SCHEMA_LOCK, time, l->now - l->since)) {
		count(counters_in(s), COUNT_LOCK_WAITS, 1);
		return 1;
	}
	count(counters_in(s), COUNT_LOCKS_LOST, 1);
	return 0;
}

#endif
