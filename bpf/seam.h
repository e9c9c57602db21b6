/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Seams: user space takes what was added so far, and the capture goes on. A stretch that is open at a seam is split
 * there: the part before the seam is written down as a seam record, which user space adds to what it takes; the part
 * after it is added when the stretch ends, with its count.
 *
 * The records of threads stay as they are at a seam. A seam record is written by an iterator over all threads, or, if
 * the stretch ends before the iterator comes, by the program that ends it. Either writes the same. Where the iterator
 * reads a record while a program changes it, the program has written its own or is about to; so the iterator never
 * replaces a seam record, and a program always does.
 *
 * A wait may begin after the seam and before the side is changed. The program that takes its stack then does not send a
 * stack that the old side knows. Such a wait has a seam record without time: user space keeps its key for the next
 * interval. It replaces no other: the stretch that was open at the seam came before it.
 */
#ifndef PERF_AGENT_SEAM_H
#define PERF_AGENT_SEAM_H

#include "threads.h"

/* By `id` of the thread. Emptied at each seam. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct seam_record);
} seam_records SEC(".maps");

/* As begin_run, for a program that ends stretches. */
static __always_inline void begin_run_of_threads(struct sampler_state *s, u32 slot)
{
	begin_run(s, slot);
	s->seam_ns = control_word(CONTROL_SEAM_NS + side_of(s));
	s->previous_seam_ns = control_word(CONTROL_PREVIOUS_SEAM_NS + side_of(s));
	s->gathered_seam_ns = control_word(CONTROL_GATHERED_SEAM_NS);
}

/*
 * Whether a stretch that began before a seam was accounted there: if it was long enough by then. Else all of it is
 * accounted where it is, at the next seam or at its end.
 */
static __always_inline bool accounted_at(u64 seam_ns, u64 since, u64 min_ns)
{
	return since < seam_ns && seam_ns - since >= min_ns;
}

/* The begin of the part of a stretch that no seam has accounted. */
static __always_inline u64 rest_of(struct sampler_state *s, u64 since, u64 min_ns)
{
	return accounted_at(s->seam_ns, since, min_ns) ? s->seam_ns : since;
}

/* Of the stretch up to `now`, from `from` on, the time in which the thread could have run. */
static __always_inline u64 waited_in(struct thread *t, u64 from, u64 now)
{
	u64 runnable = t->state == OFF_PREEMPTED ? from : t->runnable;

	if (!runnable || runnable >= now)
		return 0;
	return now - (runnable > from ? runnable : from);
}

/* Whether user space gathers the records of the last seam. */
static __always_inline bool is_gathered(struct sampler_state *s)
{
	return s->seam_ns && s->gathered_seam_ns == s->seam_ns;
}

/* Besides, whether the thread was there. */
static __always_inline bool was_at_seam(struct sampler_state *s, struct thread *t)
{
	return is_gathered(s) && t->since && t->born < s->seam_ns;
}

/* Besides, whether its present stretch was open at the seam. */
static __always_inline bool is_split(struct sampler_state *s, struct thread *t)
{
	return was_at_seam(s, t) && t->since < s->seam_ns;
}

/*
 * Writes down the part of the present stretch before the last seam; with key 0 that of the life of the thread alone.
 * `flags`: BPF_NOEXIST unless the program ends the stretch. Of its own, because of the room that a record takes on the
 * stack.
 */
static __noinline int write_seam_record(struct sampler_state *s, struct thread *t, u64 key, u64 flags)
{
	struct seam_record record = {.seam_ns = s->seam_ns, .key = key};
	u64 seam = s->seam_ns, previous = s->previous_seam_ns, from = t->since, id = t->id;
	u64 min_ns = t->state == OFF_NONE ? 0 : min_block_ns;
	long error;

	if (key && accounted_at(seam, t->since, min_ns)) {
		if (accounted_at(previous, t->since, min_ns))
			from = previous;
		record.value = seam - from;
		record.waited = t->state == OFF_NONE ? 0 : waited_in(t, from, seam);
	}
	from = t->born > previous ? t->born : previous;
	if (wall_clock && from < seam)
		record.lifetime = seam - from;
	if (!record.key && !record.lifetime)
		return 0;
	error = bpf_map_update_elem(&seam_records, &id, &record, flags);
	if (error && error != -EEXIST)
		count(counters_in(s), COUNT_SEAMS_LOST, 1);
	return 0;
}

/*
 * The life of a thread until `end`; what lies before the last seam is in its record. It has none yet if its stretch at
 * the seam was ended by a program that did not know of the seam.
 */
static __always_inline void add_life(struct sampler_state *s, struct thread *t, u64 end)
{
	if (was_at_seam(s, t))
		write_seam_record(s, t, 0, BPF_NOEXIST);
	count(counters_in(s), COUNT_LIFETIME_NS, end - (t->born > s->seam_ns ? t->born : s->seam_ns));
	t->born = end;
}

/*
 * A thread begins to end. Its process may be gone, and with it the capture, before its last switch, and no iterator
 * would find it: from here on its life is told as its stretches are, up to the present one here, the rest as it is
 * switched. Threads that end at the same moment share the counters. Switched between reading `born` and setting it, as
 * kernels may that preempt programs, it would be told twice: a few instructions of a life.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exits, struct task_struct *task)
{
	struct sampler_state *s = state_at(slot_of(CONTEXT_ITERATOR));
	u32 side = side_in_use(CONTROL_SIDE_CHANGES);
	u64 since, from, seam = control_word(CONTROL_SEAM_NS + side);
	struct thread *t = thread_of(task);

	if (!s || !t)
		return 0;
	since = t->since;
	from = t->born > seam ? t->born : seam;
	if (since > from) {
		__sync_fetch_and_add(&s->counters[side].at[COUNT_LIFETIME_NS], since - from);
		t->born = since;
	}
	return 0;
}

#endif
