/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Adds walked stacks to sums. A stack that was seen before costs one addition. A new stack is sent to user space once,
 * at its real length. If the ring is full, its sums are not entered, so the next sample of the stack sends it again.
 */
#ifndef PERF_AGENT_AGGREGATE_H
#define PERF_AGENT_AGGREGATE_H

#include "single.h"
#include "stackhash.h"
#include "task.h"
#include "value.h"
#include "values.h"

/* A sample without its user frames. */
struct sample {
	u32 slot;
	u32 pid;
	u32 tid;
	u16 event; /* enum event */
	u16 state; /* enum off_state, or one of the numbers after it */
	u32 flags; /* of its process, see struct proc; set only with kernel_stacks_by_process */
	u16 kernel_frames;
	bool at_return;	    /* the thread is at an instruction that returns: its stack is that of the caller */
	u8 python_sections; /* the walk of Python's frames has a result, in the `python_walk` of the slot */
	u64 exec_id;
	u64 kernel_hash;
	u64 value;		  /* of an event that has one; else 0 */
	struct task_struct *task; /* its name is the thread name; NULL: the current task */
};

static __always_inline void name_of(struct sample *sample, void *name)
{
	struct task_struct *task = sample->task;

	if (task)
		bpf_core_read(name, COMM_LEN, &task->comm);
	else
		bpf_get_current_comm(name, COMM_LEN);
}

static __always_inline bool takes_kernel_stack(struct sample *sample)
{
	/* What waits for a lock of the kernel is a function of the kernel. */
	if (kernel_locks && sample->slot - first_slot[CONTEXT_KERNEL_LOCK] < possible_cpus)
		return true;
	if (!kernel_stacks_by_process)
		return kernel_stacks;
	return kernel_stacks != !!(sample->flags & PROC_OTHER_KERNEL_STACKS);
}

/* Puts the kernel stack into the outbox. User frames follow it if the stack is sent. */
static __always_inline void take_kernel_stack(void *ctx, struct sample *sample)
{
	struct outbox *box = outbox_by(&sample->slot);
	u32 n, i;
	u64 hash = seed;
	long size;

	sample->kernel_frames = 0;
	sample->kernel_hash = 0;
	if (!box)
		return;
	size = bpf_get_stack(ctx, &box->words[OUTBOX_KERNEL_FRAMES], MAX_KERNEL_FRAMES * 8, 0);
	if (size <= 0)
		return;
	n = (u32)size / 8;
	for (i = 0; i < MAX_KERNEL_FRAMES; i++) {
		if (i >= n)
			break;
		hash = hash_mix(hash, box->words[OUTBOX_KERNEL_FRAMES + i]);
	}
	sample->kernel_frames = n;
	sample->kernel_hash = hash;
}

/* One batch of gather_frames. */
__noinline int gather_batch(u32 slot)
{
	struct outbox *box = outbox_at(slot);
	struct walk *w = walk_at(slot);
	u32 i, at, to;
	struct memo *m;

	if (!box || !w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	at = w->at;
	to = w->left;
	for (i = 0; i < BATCH; i++) {
		if (at >= w->total)
			return DONE;
		box->words[to & (OUTBOX_NATIVE_WORDS - 1)] = m->frames[at & (MAX_USER_FRAMES - 1)].pc & FRAME_OUTSIDE;
		at++;
		to++;
	}
	w->at = at;
	w->left = to;
	return MORE;
}

/* Copies the frames of the last walk into the outbox, beginning at word `first`. */
static __always_inline void gather_frames(u32 slot, u32 first)
{
	struct walk *w = walk_at(slot);
	u32 i;

	if (!w)
		return;
	w->at = 0;
	w->left = first;
	for (i = 0; i < BATCHES; i++)
		if (gather_batch(slot))
			break;
}

/* A struct section as one word. */
static __always_inline u64 section_head(u32 kind, u32 count, u32 bytes)
{
	return (u64)bytes << 32 | count << 16 | kind;
}

/* Puts the sections of Python's frames into the outbox, beginning at word `at`. Returns where they end. */
static __noinline u32 put_python(u32 slot, u32 at)
{
	struct python_walk *p = python_walk_at(slot);
	struct outbox *box = outbox_at(slot);
	u64 size;

	if (!p || !box)
		return at;
	at &= OUTBOX_NATIVE_WORDS - 1;
	box->words[at] = section_head(SECTION_INTERPRETED_WALK, 0, 8);
	box->words[at + 1] = p->end | p->flags;
	box->words[at + 2] =
	    section_head(SECTION_INTERPRETED_FRAMES, p->total, p->total * sizeof(struct interpreted_frame));
	at += 3;
	size = p->total * sizeof(struct interpreted_frame);
	keep_in_register(size);
	if (size > MAX_INTERPRETED_FRAMES * sizeof(struct interpreted_frame))
		return at;
	bpf_probe_read_kernel(&box->words[at & (OUTBOX_NATIVE_WORDS - 1)], size, p->frames);
	return at + (u32)size / 8;
}

static __always_inline bool send_stack(struct sample *sample, u64 hash, u32 end, u32 user_frames)
{
	struct outbox *box = outbox_by(&sample->slot);
	u32 native = OUTBOX_KERNEL_FRAMES + sample->kernel_frames, end_at, size;

	if (!box)
		return false;
	box->words[0] = section_head(SECTION_KERNEL_FRAMES, sample->kernel_frames, sample->kernel_frames * 8);
	box->words[native & (OUTBOX_NATIVE_WORDS - 1)] =
	    section_head(SECTION_NATIVE_FRAMES, user_frames, user_frames * 8);
	if (user_frames)
		gather_frames(sample->slot, native + 1);
	end_at = native + 1 + user_frames;
	if (python && sample->python_sections)
		end_at = put_python(sample->slot, end_at);
	size = (end_at & (OUTBOX_WORDS - 1)) * 8;
	box->message.bytes = size;
	box->message.kind = MESSAGE_STACK;
	box->message.pid = sample->pid;
	box->message.tid = sample->tid;
	box->message.end = end;
	box->message.hash = hash;
	box->message.exec_id = sample->exec_id;
	box->message.state = sample->state;
	box->message.event = sample->event;
	name_of(sample, box->message.thread);
	box->message.time = bpf_ktime_get_ns();
	return !send_beside_life(box, sizeof(struct message) + size, sizeof(*box));
}

static __always_inline u64 kind_of(u32 event, u32 state)
{
	return (u64)event << KEY_EVENT_SHIFT | state;
}

/* Makes a hash a key: the low byte gets the event and the state of its sums. */
static __always_inline u64 key_in(u64 hash, u64 kind)
{
	return (hash & ~KEY_KIND) | (kind & KEY_KIND);
}

/*
 * The key of a sample's sums. With `per_thread` it depends on the thread. For a waker it depends on the name of the
 * thread only; a waker with tid 0 is an interrupt.
 */
static __always_inline u64 key_of(struct sample *sample, u64 user_hash, u32 end)
{
	bool waker = sample->state == STATE_WAKER || sample->state == STATE_WAKER_IN_SOFTIRQ;
	u64 key = hash_mix(user_hash, sample->kernel_hash);

	key = hash_mix(key, sample->exec_id);
	key = hash_mix(key, ((u64)sample->pid << 32) | end);
	if (sample->tid && (per_thread || waker)) {
		u64 name[2] = {};

		name_of(sample, name);
		key = hash_mix(hash_mix(hash_mix(key, waker ? 1 : sample->tid), name[0]), name[1]);
	}
	return key_in(key, kind_of(sample->event, sample->state));
}

/*
 * Enters sums under a new key. Returns an error if another CPU has entered the key meanwhile, or if it cannot be
 * entered. Not inlined, because the sums take much of the BPF stack.
 */
static __noinline long enter_sums(u32 side, u64 key, u64 first, u64 second, u64 third)
{
	struct total values = {.values = {first, second, third}};

	return enter_in(side, totals, &key, &values);
}

/* As enter_sums, with the values of the first occurrence. */
static __always_inline long enter_values(u32 side, u64 key, u32 schema, u64 first, u64 second, u64 third)
{
	return enter_sums(side, key, first_value(fold_of(schema, 0), first), first_value(fold_of(schema, 1), second),
			  first_value(fold_of(schema, 2), third));
}

/*
 * Gives a pending count to a key whose sums are in the table. First adds the samples of the key that had the pending
 * count before to its sums.
 */
static __always_inline void remember_sum(struct pending_count *pending, u32 side, u64 key)
{
	struct total *total;

	if (pending->count) {
		total = find_total(side, pending->key);
		if (!total)
			return;
		add_values(total, SCHEMA_CLOCK, pending->count, 0, 0);
	}
	pending->key = key;
	pending->count = 0;
}

/*
 * Adds a sample whose key is not in the table, after sending its stack. Returns false if the sample is lost. Not
 * inlined, because few samples come here.
 */
static __noinline int add_unseen(struct sampler_state *s, struct sample *sample, u64 key, u32 end, u32 user_frames)
{
	struct counters *c = counters_in(s);
	struct total *total;
	long error;

	if (!send_stack(sample, key, end, user_frames)) {
		count(c, COUNT_LOST_RING_FULL, 1);
		return 0;
	}
	count(c, COUNT_STACKS_SENT, 1);
	error = enter_values(side_of(s), key, SCHEMA_VALUE, 1, sample->value, 0);
	if (!error)
		return 1;
	total = find_total(side_of(s), key);
	if (!total) {
		count(c, cause_of(error, COUNT_LOST_MAP_FULL), 1);
		return 0;
	}
	add_values(total, SCHEMA_VALUE, 1, sample->value, 0);
	return 1;
}

/* Adds the sample to its sums. Returns their key, or 0 if the sample is lost. Only for programs that cannot interrupt
 * themselves: they write `pending` without atomics. */
static __always_inline u64 add_sample(struct sampler_state *s, struct sample *sample, u64 user_hash, u32 end,
				      u32 user_frames)
{
	u64 key = key_of(sample, user_hash, end);
	struct pending_count *pending;
	u32 side = side_of(s);
	struct total *total;

	pending = &s->pending[side].at[key >> (64 - PENDING_COUNTS_SHIFT)];
	if (has_value()) {
		total = find_total(side, key);
		if (total)
			add_values(total, SCHEMA_VALUE, 1, sample->value, 0);
		else if (!add_unseen(s, sample, key, end, user_frames))
			return 0;
	} else if (pending->key == key && key) {
		pending->count++;
	} else {
		total = find_total(side, key);
		if (total)
			add_values(total, SCHEMA_CLOCK, 1, 0, 0);
		else if (!add_unseen(s, sample, key, end, user_frames))
			return 0;
		remember_sum(pending, side, key);
	}
	count(counters_in(s), COUNT_SAMPLES, 1);
	return key;
}

#endif
