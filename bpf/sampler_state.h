/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a sampling program works with, in one struct: the run at hand, cached processes, counters, pending counts, the
 * walk. There is one for each CPU and context, because a program of one context may interrupt a program of another. The
 * maps that need one element for each of them have the same index, the slot.
 */
#ifndef PERF_AGENT_SAMPLER_STATE_H
#define PERF_AGENT_SAMPLER_STATE_H

#include "claim.h"
#include "python_walk.h"

/*
 * A program of one context is never interrupted by a program of the same context on the same CPU. Each entry knows its
 * context; no program reads the preempt count. A source in a context without slots adds them in
 * crates/kernel/src/layout.rs.
 */
enum sampler_context {
	CONTEXT_TASK = 0,  /* a task with preemption off: switches of threads, events that the kernel counts */
	CONTEXT_PROBE = 1, /* a task at a probe of its program: one at a time on a CPU, see probe.h */
	/* Interrupts are off: the clocks, which are timers, and wake-ups, which happen in each of these contexts. */
	CONTEXT_HARDIRQ = 2,
	CONTEXT_CLAIMED = 3, /* a task that can be preempted: the program claims a slot, see claim_slot */
	/*
	 * Anywhere: events of the hardware, which may come as NMIs, and tracepoints. While one of their programs runs,
	 * the kernel runs no other on that CPU (`bpf_prog_active`).
	 */
	CONTEXT_ANY = 4,
	/* Where the kernel waits for a lock of its own, in tasks and interrupts: such a program claims the state. */
	CONTEXT_KERNEL_LOCK = 5,
	CONTEXTS = 6,
};

/* A copy of an element of `procs`, or that there is none. */
struct cached_proc {
	u32 pid;
	bool known;
	u64 changes; /* of `procs` so far: the copy holds as long as there are no more */
	struct proc proc;
};

#define CACHED_PROCS 8

/* A thread and its wait for a lock, as the functions of locks.h and lock_waits.h work on it. */
struct lock_run {
	u64 task;     /* address of the task of the thread */
	u64 own_name; /* see locks.h */
	u64 stack;    /* key of the stack with which it left its CPU */
	u64 lock;     /* address of the lock; 0: it waits for none */
	u64 owner;    /* key of the stack of the owner; 0: not known */
	u64 waker;    /* key of the stack that ended the wait; 0: none */
	u64 since;
	u64 now;
	u64 open_key; /* see tell_open_lock */
	u32 pid;
	u32 tid;
	u32 state;    /* enum off_state */
	u32 kind;     /* enum lock_kind */
	u32 released; /* see struct lock_wait */
	u32 length;   /* the same */
};

struct sampler_state {
	u64 claims;	/* of a slot of CONTEXT_CLAIMED, CONTEXT_PROBE or CONTEXT_KERNEL_LOCK: see claim.h */
	u64 ticks;	/* runs of the program of the sampling event, also those that take no sample */
	u64 idle_ticks; /* of these, those while the CPU was idle */
	u64 passed; /* events of recorded processes since the last sample, where the program counts them: `sample_every`
		     */
	u64 busy[2]; /* runs that found the state claimed, by side: it is not theirs, so they add atomically */

	/* The run of a program: read once at its begin, so that the run adds everything to one side. */
	u32 slot;
	u32 changes; /* of the side, up to this one; the last bit is its number */
	u32 counts;  /* index of the counters that the run adds to */
	u32 gathers; /* user space gathers the records of `seam_ns` now */
	u32 rawbox;  /* the box for an unwalked stack that the run has claimed */
	u32 python;  /* the state for a walk of Python's frames that the run has claimed */
	u64 seam_ns; /* the last seam before this run; 0: none */

	struct cached_proc procs[CACHED_PROCS];
	struct counters counters[2 * COUNTED_EVENTS]; /* see counters_index */
	struct pending_counts pending[2];	      /* by side */
	struct walk walk;
	struct lock_run lock_run;
	struct seam_record seam_record; /* that is being written */
};

/* The maps are mapped by user space: it reads and empties counters without a system call for each slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct sampler_state);
} sampler_states SEC(".maps");

/*
 * Words that user space and the programs share: enum control_word. A variable, because it is read without a look-up;
 * user space maps its section.
 */
volatile u64 control_words[CONTROL_WORDS] SEC(".data.control") = {};

static __always_inline u64 control_word(u32 which)
{
	return control_words[which];
}

/* The side in use, by the word that counts its changes. User space waits for all runs that have read the word. */
static __always_inline u32 side_in_use(u32 word)
{
	return control_word(word) & 1;
}

static __always_inline struct sampler_state *state_at(u32 slot)
{
	return bpf_map_lookup_elem(&sampler_states, &slot);
}

/* Each event has counters of its own on each side. */
static __always_inline u32 counters_index(u32 event, u32 side)
{
	return event << 1 | side;
}

static __always_inline void add_to_side(struct sampler_state *s, u32 slot, u32 event, u32 changes)
{
	s->slot = slot;
	s->changes = changes;
	s->counts = counters_index(event, changes & 1);
}

/* To be called once in a run, before anything is added. */
static __always_inline void begin_run(struct sampler_state *s, u32 slot, u32 event)
{
	add_to_side(s, slot, event, control_word(CONTROL_SIDE_CHANGES));
}

/* The side that this run adds to. */
static __always_inline u32 side_of(struct sampler_state *s)
{
	return s->changes & 1;
}

static __always_inline struct counters *counters_in(struct sampler_state *s)
{
	return &s->counters[s->counts & (2 * COUNTED_EVENTS - 1)];
}

/* Not atomic: the slot belongs to the program alone while it runs. */
static __always_inline void count(struct counters *c, u32 counter, u64 n)
{
	c->at[counter & (COUNTERS - 1)] += n;
}

#endif
