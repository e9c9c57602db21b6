/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The maps and settings, and what the walker asks of its surroundings, over them. */
#ifndef PERF_AGENT_MAPS_H
#define PERF_AGENT_MAPS_H

#include "sampler_state.h"

/* Sizes given as 1 are set before loading: they depend on the number of CPUs and on options. */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct memo);
} memos SEC(".maps");

struct pool_chunk {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct chunk));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CHUNKS);
	__type(key, u32);
	__array(values, struct pool_chunk);
} table_pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct proc);
} procs SEC(".maps");

/* Two tables of sums: the programs add to one while user space empties the other. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct total);
} totals_a SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct total);
} totals_b SEC(".maps");

/* Room for the largest read at a masked offset. */
#define RAW_MASK 0xffff
_Static_assert(RAW_STACK_BYTES <= RAW_MASK, "the mask covers every stack");

/* A stack that is sent unwalked. */
struct rawbox {
	struct message message;
	struct section at_head;
	struct sampled_at at;
	struct section values_head;
	u64 values[2];
	struct section registers_head;
	struct raw_registers registers;
	struct section kernel_head;
	u64 kernel[MAX_KERNEL_FRAMES];
	struct section stack_head;
	struct raw_stack raw;
	u8 stack[RAW_MASK + 1 + SMALLEST_PAGE];
	u64 claims; /* see claim_rawbox */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rawbox);
} rawboxes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1);
} ring SEC(".maps");

/* Interpreters in processes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct python);
} pythons SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct python_walk);
} python_walks SEC(".maps");

/* Code objects that user space has, by a hash of what they consist of, their address and program. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} sent_codes SEC(".maps");

/* By the low bits of their pid, processes share an allowance. */
#define ALLOWANCES 1024

/*
 * Until when the allowances for unwalked stacks are used up, CLOCK_MONOTONIC; see deferred.h. The first is that of the
 * machine; those of processes follow, for stacks that wait for tables, for samples below rules that the kernel does not
 * evaluate, and for all others.
 */
u64 allowances[1 + 3 * ALLOWANCES] SEC(".data.allowances") = {};

/* Settings, fixed when the programs are loaded. Those of 64 bits come first, so that there are no gaps before them. */
const volatile u64 seed = 0;
const volatile u64 min_block_ns = 0;
const volatile u64 single_min_ns = 0;
/* of a tracepoint, each Nth event of a CPU that is to be recorded is a sample */
const volatile u64 sample_every = 1;
/* where the value of the sampled event is */
const volatile struct value_plan value_plan = {};
/* filters of samples: only this control group, which is at one of these levels; only threads in `chosen_threads` */
const volatile u64 chosen_cgroup = 0;
const volatile u32 chosen_first_level = 0;
const volatile u32 chosen_last_level = 0;
const volatile bool chooses_threads = false;
const volatile bool whole_system = false;
/* the children of a recorded process are not recorded */
const volatile bool without_children = false;
const volatile bool kernel_stacks = false;
/* processes may have PROC_OTHER_KERNEL_STACKS */
const volatile bool kernel_stacks_by_process = false;
const volatile bool per_thread = false;
const volatile bool check_memo = false;
const volatile bool without_memo = false;
/* time on CPUs is recorded too, for a wall-clock profile */
const volatile bool wall_clock = false;
/* statistics of the scheduler, and those of each process */
const volatile bool sched_stats = false;
const volatile bool each_process = false;
/* the number of events that are split by process */
const volatile u8 split_by_process = 0;
/* the wakers of threads are recorded */
const volatile bool wakers = false;
/* bpf_task_storage_get works here */
const volatile bool task_storage = false;
/* bit n: state n (of enum off_state, or STATE_NOT_RUN_YET) is recorded */
const volatile u8 recorded_states = 0;
/* the same for the states that belong to the off-CPU profile */
const volatile u8 profiled_states = 0;
const volatile u32 possible_cpus = 1;
/* by context, the slot of the first CPU; those of the other CPUs follow. Contexts without programs have no slots */
const volatile u32 first_slot[CONTEXTS] = {};
/* slots of CONTEXT_CLAIMED, for all CPUs together */
const volatile u32 claimable_slots = 0;
/* numbers of memos for each CPU: for the sampler, and for programs that follow threads; powers of two */
const volatile u32 sampler_memos = MEMOS_PER_CPU;
const volatile u32 sched_memos = 1;
/* the first memo of the sampler */
const volatile u32 first_memo = 0;
/* for each CPU, memos of the programs at waits of goroutines, and as many at those for locks of the kernel */
const volatile u32 lock_memos = 1;
const volatile u32 first_lock_memo = 0;
/* the event of samples in their keys. User space loads one object for each event; all of them share the maps */
const volatile u32 sampled_event = EVENT_CLOCK;
/* besides the sums, a message is sent for each sample of the clock */
const volatile bool single_samples = false;
/* the same for each interval of the off-CPU profile that lasts so long */
const volatile bool single_intervals = false;
/* waits for locks are recorded */
const volatile bool locks = false;
/* those for locks of the kernel too */
const volatile bool kernel_locks = false;
/* as `recorded_states`, the states in which stacks are walked: for locks, of threads that hold them, also if no time is
 * recorded */
const volatile u8 walked_states = 0;
/* the frames of Python are walked */
const volatile bool python = false;
/* boxes for unwalked stacks, and states of walks of Python's frames, for all slots together */
const volatile u32 raw_boxes = 1;
const volatile u32 python_states = 1;
/* inode of the agent's PID namespace, 0 if it is the first one */
const volatile u32 pid_namespace = 0;

/* The slot of this CPU, for programs that are not preempted. */
static __always_inline u32 slot_of(enum sampler_context context)
{
	return first_slot[context] + bpf_get_smp_processor_id();
}

/* Slots that a claim tries. */
#define CLAIM_TRIES 4

/* Claims a slot for this program until release_slot and returns its state. NULL: all slots are in use, and the caller
 * counts the work that it cannot do. */
static __always_inline struct sampler_state *claim_slot(u32 *slot)
{
	struct sampler_state *s;
	u32 i;

	for (i = 0; i < CLAIM_TRIES; i++) {
		if (i >= claimable_slots)
			break;
		*slot = first_slot[CONTEXT_CLAIMED] + i;
		s = state_at(*slot);
		if (s && claim(&s->claims))
			return s;
	}
	return NULL;
}

static __always_inline void release_slot(struct sampler_state *s)
{
	release(&s->claims);
}

/* The box that the program in this slot has claimed. */
static __always_inline struct rawbox *rawbox_at(u32 slot)
{
	struct sampler_state *s = state_at(slot);
	u32 index;

	if (!s)
		return NULL;
	index = s->rawbox;
	return bpf_map_lookup_elem(&rawboxes, &index);
}

/*
 * Claims a box for an unwalked stack, until its claims are released. Boxes are large and seldom needed, so where there
 * are many CPUs there are fewer boxes than slots. NULL: all that were tried are in use, and the caller counts that.
 */
static __always_inline struct rawbox *claim_rawbox(struct sampler_state *s, u32 slot)
{
	struct rawbox *box;
	u32 index, i;

	for (i = 0; i < CLAIM_TRIES; i++) {
		index = (slot + i) % raw_boxes;
		box = bpf_map_lookup_elem(&rawboxes, &index);
		if (box && claim(&box->claims)) {
			s->rawbox = index;
			return box;
		}
	}
	return NULL;
}

/*
 * For programs that count and do nothing else: such a program needs no slot of its own. It adds to the slot of the
 * clock, which may interrupt it; so the addition is atomic.
 */
static __always_inline void count_alone_on(u32 side, u32 event, u32 counter, u64 n)
{
	struct sampler_state *s = state_at(slot_of(CONTEXT_HARDIRQ));

	if (s)
		__sync_fetch_and_add(&s->counters[counters_index(event, side)].at[counter], n);
}

static __always_inline void count_alone(u32 event, u32 counter, u64 n)
{
	count_alone_on(side_in_use(CONTROL_SIDE_CHANGES), event, counter, n);
}

static __always_inline struct walk *walk_at(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	return s ? &s->walk : NULL;
}

/* By the address of a slot: with the slot itself, clang keeps more in stack frames that have no room for it. */
static __always_inline struct outbox *outbox_by(u32 *slot)
{
	struct sampler_state *s = bpf_map_lookup_elem(&sampler_states, slot);

	return s ? &s->walk.outbox : NULL;
}

static __always_inline struct outbox *outbox_at(u32 slot)
{
	return outbox_by(&slot);
}

/* The state that the program in this slot has claimed. */
static __always_inline struct python_walk *python_walk_at(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	return s ? bpf_map_lookup_elem(&python_walks, &s->python) : NULL;
}

/*
 * Claims a state for a walk of Python's frames, until release_python_walk. They are large, and most CPUs run no Python
 * at a given moment, so where there are many CPUs there are fewer of them than slots. NULL: all that were tried are in
 * use.
 */
static __noinline struct python_walk *claim_python_walk(struct sampler_state *s, u32 slot)
{
	struct python_walk *p;
	u32 i;

	for (i = 0; i < CLAIM_TRIES; i++) {
		s->python = (slot + i) % python_states;
		p = bpf_map_lookup_elem(&python_walks, &s->python);
		if (p && claim(&p->claims))
			return p;
	}
	return NULL;
}

static __always_inline void release_python_walk(struct sampler_state *s)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &s->python);

	if (p)
		release(&p->claims);
}

static __always_inline struct python *python_at(u32 index)
{
	return bpf_map_lookup_elem(&pythons, &index);
}

static __always_inline bool code_was_sent(u64 key)
{
	return bpf_map_lookup_elem(&sent_codes, &key) != NULL;
}

static __always_inline void note_sent_code(u64 key)
{
	u32 sent = 1;

	/* Without an entry the code object is sent again, which does no harm. */
	bpf_map_update_elem(&sent_codes, &key, &sent, BPF_ANY);
}

static __always_inline struct memo *memo_at(u32 index)
{
	return bpf_map_lookup_elem(&memos, &index);
}

/* By `use` of a page table, the epoch of the last walk that went through a mapping with that table. User space maps the
 * section. */
u32 table_uses[TABLE_USES] SEC(".data.uses") = {};

static __always_inline u32 epoch_now(void)
{
	return (u32)control_word(CONTROL_EPOCH);
}

static __always_inline void note_use(u32 use, u32 epoch)
{
	use &= TABLE_USES - 1;
	if (table_uses[use] != epoch)
		table_uses[use] = epoch;
}

/* Notes that a stack of a process is taken in this epoch. */
static __always_inline void note_process(struct proc *proc)
{
	u32 epoch = epoch_now();

	if (proc->epoch != epoch)
		proc->epoch = epoch;
}

static __always_inline struct chunk *chunk_at(u32 index)
{
	u32 zero = 0;
	void *chunk = bpf_map_lookup_elem(&table_pool, &index);

	return chunk ? bpf_map_lookup_elem(chunk, &zero) : NULL;
}

static __always_inline long read_user(void *to, u32 size, u64 from)
{
	return bpf_probe_read_user(to, size, (const void *)from);
}

static __always_inline u64 saved_register(u64 regs, u32 dwarf_number, u64 *value)
{
	u32 place = saved_register_place(dwarf_number);

	if (place == ~0U)
		return 1;
	return bpf_probe_read_kernel(value, sizeof(*value), (const void *)(regs + place * 8));
}

static __always_inline u64 thread_pointer(void)
{
	return TASK_THREAD_POINTER((struct task_struct *)bpf_get_current_task());
}

static __always_inline u64 hash_seed(void)
{
	return seed;
}

/*
 * The counter of a loss, by the error of an update. Besides E2BIG that is EBUSY (since 5.11) or EDEADLK and
 * ETIMEDOUT (since 6.15): a program has interrupted another one that was just changing the same table.
 */
static __always_inline u32 cause_of(long error, u32 no_room)
{
	return error == -E2BIG ? no_room : COUNT_LOST_BUSY;
}

/* Find and enter an element in the table of a side, NAME_a or NAME_b. */
#define find_in(side, name, key) ((side) ? bpf_map_lookup_elem(&name##_b, key) : bpf_map_lookup_elem(&name##_a, key))
#define enter_in(side, name, key, first)                                                                               \
	((side) ? bpf_map_update_elem(&name##_b, key, first, BPF_NOEXIST)                                              \
		: bpf_map_update_elem(&name##_a, key, first, BPF_NOEXIST))

static __always_inline struct total *find_total(u32 side, u64 key)
{
	return find_in(side, totals, &key);
}

/* Grows with each change of `procs`. */
static __always_inline u64 changes_of_procs(void)
{
	return control_word(CONTROL_CHANGED_BY_PROGRAMS) + control_word(CONTROL_CHANGED_BY_USER_SPACE);
}

/* To be called after each change that a program makes. */
static __always_inline void procs_changed(void)
{
	__sync_fetch_and_add(&control_words[CONTROL_CHANGED_BY_PROGRAMS], 1);
}

#endif
