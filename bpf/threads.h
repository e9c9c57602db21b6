/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The record of each thread of a recorded process: since when it is on or off a CPU, and with which stack it left.
 *
 * Since 5.12 the records are in task storage, so no table can be full; before, they are in a hash of a given size.
 * Records are made where memory may be allocated: when a thread is made, and by an iterator over all threads at the
 * start of a capture; never while the scheduler holds its locks. A thread without a record is not followed, and costs
 * no more than this look-up.
 */
#ifndef PERF_AGENT_THREADS_H
#define PERF_AGENT_THREADS_H

#include "aggregate.h"
#include "filter.h"

struct thread {
	u64 since;    /* begin of the present stretch on or off a CPU; 0: not seen */
	u64 runnable; /* since when it waits for a CPU; 0: it does not */
	u64 key;      /* key of the stack with which it left the CPU; 0: this stretch is not recorded */
	u64 seen;     /* the last key that was in the sums after `epoch` changes of the side */
	u64 waker;    /* key of the stack of the thread that woke it last */
	u64 born;     /* since when it is followed */
	u64 ran;      /* its time on CPUs when it left the last one, as the scheduler accounts it */
	u64 start;    /* begin of its process: distinguishes processes with equal pids */
	u64 id;	      /* of this record; an exec may change the number of the thread, not this */
	u64 lock;     /* address of the lock that it waits for; 0: it does not */
	u64 owner;    /* key of the stack of the thread that held the lock when the wait began; 0: not known */
	u64 own_name; /* its number in its own PID namespace, and that namespace: see locks.h; 0: not asked yet */
	u32 pid;
	u32 tid;
	u32 cpu; /* the last one, + 1 */
	u32 epoch;
	u32 state; /* enum off_state */
	u32 flags;
	u32 lock_kind; /* enum lock_kind */
	u32 released;  /* its last waker was in a futex call on the same address */
};

#define THREAD_ASLEEP 1 /* it has not run since the capture began */
#define THREAD_CUT 2	/* the present stretch began before it was followed */
#define THREAD_NEW 4	/* it has not run at all */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread);
} threads_by_id SEC(".maps");

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	u32 id;

	if (task_storage)
		return bpf_task_storage_get(&threads, task, NULL, 0);
	id = task->pid;
	return bpf_map_lookup_elem(&threads_by_id, &id);
}

/*
 * The same if the filters let the samples of the thread pass. What another thread was doing is forgotten; it may be
 * moved into the chosen control group later.
 */
static __always_inline struct thread *chosen_thread_of(struct task_struct *task)
{
	struct thread *t = thread_of(task);

	if (!has_filters() || !t || passes_filters(task, t->tid))
		return t;
	t->since = 0;
	t->key = 0;
	t->state = OFF_NONE;
	return NULL;
}

/* The record of a thread, made if there is none yet. NULL: no memory. */
static __always_inline struct thread *enter_thread(struct task_struct *task, struct thread *first)
{
	u32 id;

	if (task_storage)
		return bpf_task_storage_get(&threads, task, first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	id = task->pid;
	bpf_map_update_elem(&threads_by_id, &id, first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&threads_by_id, &id);
}

/* Task storage goes with the task. */
static __always_inline void forget_thread(struct task_struct *task)
{
	u32 id = task->pid;

	if (!task_storage)
		bpf_map_delete_elem(&threads_by_id, &id);
}

/* A function of its own. Otherwise the compiler would read a field before the check whether this kernel has it. */
static __noinline u64 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ((struct task_struct___before_5_14 *)task, state);
}

static __always_inline u32 off_state_of(u64 state)
{
	if (!state)
		return OFF_PREEMPTED;
	return state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD) ? OFF_IOWAIT : OFF_BLOCKED;
}

static __always_inline bool state_is(u8 states, u32 state)
{
	return states >> state & 1;
}

static __always_inline bool is_recorded(struct proc *proc)
{
	return proc && !(proc->flags & PROC_WAKER);
}

/* Numbers of a task as the agent sees them. False: it has none, and is not followed. */
static __always_inline bool thread_numbers(struct task_struct *task, struct thread *t)
{
	t->pid = task->tgid;
	t->tid = task->pid;
	t->start = task->group_leader->start_time;
	if (pid_namespace) {
		t->pid = number_in_namespace(task->group_leader);
		t->tid = number_in_namespace(task);
	}
	return t->pid;
}

static __always_inline u64 thread_id(struct thread *t)
{
	return hash_mix(hash_mix(seed ^ t->born, t->tid), t->pid);
}

/* A new thread. It is followed if its process is recorded, or the one that it was forked from and children are. */
SEC("tp_btf/task_newtask")
int BPF_PROG(thread_begins, struct task_struct *task, u64 clone_flags)
{
	struct thread first = {};
	u32 creator, ignored;

	/* A record under this number belongs to a thread whose end was not seen. */
	forget_thread(task);
	if (!thread_numbers(task, &first))
		return 0;
	if (!whole_system && !is_recorded(bpf_map_lookup_elem(&procs, &first.pid))) {
		if (without_children || !current_numbers(&creator, &ignored) ||
		    !is_recorded(bpf_map_lookup_elem(&procs, &creator)))
			return 0;
	}
	first.born = bpf_ktime_get_ns();
	first.id = thread_id(&first);
	first.since = first.born;
	first.state = OFF_PREEMPTED;
	first.flags = THREAD_CUT | THREAD_NEW;
	if (!enter_thread(task, &first))
		count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
	return 0;
}

/* A thread that calls exec takes the number of the first thread of its process. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(thread_execs, struct task_struct *task, int old_number)
{
	u32 old = old_number;
	struct thread *t, moved;

	if (old == (u32)task->pid)
		return 0;
	if (task_storage) {
		t = bpf_task_storage_get(&threads, task, NULL, 0);
		if (t) {
			t->tid = t->pid;
			t->own_name = 0;
		}
		return 0;
	}
	t = bpf_map_lookup_elem(&threads_by_id, &old);
	if (!t)
		return 0;
	moved = *t;
	moved.tid = moved.pid;
	moved.own_name = 0;
	bpf_map_delete_elem(&threads_by_id, &old);
	forget_thread(task);
	if (!enter_thread(task, &moved))
		count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
	return 0;
}

#endif
