/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a sampling program has of its own, in one struct: the run at hand, cached processes, counters, pending counts,
 * the walk. There is one for each CPU and context, because a program of one context may interrupt one of another. The
 * maps that need one element for each of them have the same index, the slot.
 */
#ifndef PERF_AGENT_SAMPLER_STATE_H
#define PERF_AGENT_SAMPLER_STATE_H

#include "walk_state.h"

/*
 * Programs of one context never nest on a CPU. A source whose programs can nest with all of these (a uprobe, which the
 * scheduler interrupts; a tracepoint in softirq) adds a context here and its slots in crates/kernel/src/layout.rs.
 */
enum sampler_context {
	CONTEXT_CLOCK = 0,     /* the interrupt of the sampling clock */
	CONTEXT_SCHEDULER = 1, /* tracepoints of the scheduler: interrupts are off */
	CONTEXT_ITERATOR = 2,  /* can be preempted: one slot for all CPUs, user space runs one iterator at a time */
	CONTEXTS = 3,
};

/* A copy of an element of `procs`, or that there is none. */
struct cached_proc {
	u32 pid;
	bool known;
	u64 changes; /* of `procs` so far: the copy holds as long as there are no more */
	struct proc proc;
};

#define CACHED_PROCS 8

struct sampler_state {
	/* The run of a program: read once at its begin, so that all that it adds goes to one side. */
	u32 slot;
	u32 changes;	      /* of the side in use, so far; the last bit names it */
	u64 seam_ns;	      /* the last seam before this run; 0: none */
	u64 previous_seam_ns; /* the one before that */
	u64 gathered_seam_ns; /* the seam whose records user space gathers now; 0: none */

	struct cached_proc procs[CACHED_PROCS];
	/* Of either side. */
	struct counters counters[2];
	struct pending_counts pending[2];
	struct walk walk;
};

/* The maps are mapped by user space: it reads and empties counters without a system call for each slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct sampler_state);
} sampler_states SEC(".maps");

/* Words that user space and the programs share: enum control_word. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CONTROL_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, u64);
} control_words SEC(".maps");

static __always_inline u64 control_word(u32 which)
{
	volatile u64 *word = bpf_map_lookup_elem(&control_words, &which);

	return word ? *word : 0;
}

/* The side that is added to, by the word that counts its changes. User space waits for runs that have read it before.
 */
static __always_inline u32 side_in_use(u32 word)
{
	return control_word(word) & 1;
}

static __always_inline struct sampler_state *state_at(u32 slot)
{
	return bpf_map_lookup_elem(&sampler_states, &slot);
}

/* To be called once in a run, before anything is added. User space waits for the programs that have read the side
 * before. */
static __always_inline void begin_run(struct sampler_state *s, u32 slot)
{
	s->slot = slot;
	s->changes = control_word(CONTROL_SIDE_CHANGES);
}

/* The side that this run adds to. */
static __always_inline u32 side_of(struct sampler_state *s)
{
	return s->changes & 1;
}

static __always_inline struct counters *counters_in(struct sampler_state *s)
{
	return &s->counters[side_of(s)];
}

/* For programs that count and do nothing else. */
static __always_inline struct counters *counters_of(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	return s ? &s->counters[side_in_use(CONTROL_SIDE_CHANGES)] : NULL;
}

/* Not atomic: another program on this CPU in between (NMI) may cost one count. */
static __always_inline void count(struct counters *c, u32 counter, u64 n)
{
	c->at[counter & (COUNTERS - 1)] += n;
}

#endif
