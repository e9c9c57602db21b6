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
 * User space writes a seam down a moment before its time, and changes the side a moment after it. Meanwhile a program
 * that follows threads chooses the side by the time (changes_at), so stretches are split at the seam exactly. If user
 * space is held up between choosing the time and writing it down, programs count stretches that end in that moment
 * whole on the old side. A wait that begins in that moment has its stack on the old side alone. Such a wait gets a seam
 * record without time: user space keeps its key for the next interval. It replaces no other record, because the stretch
 * that was open at the seam came before it.
 */
#ifndef PERF_AGENT_SEAM_H
#define PERF_AGENT_SEAM_H

#include "locks.h"

/* By `id` of the thread. Emptied at each seam. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct seam_record);
} seam_records SEC(".maps");

/* The side at a time, as the number of changes up to it, and the last seam before that time. */
static __always_inline u64 changes_at(u64 now, u64 *seam_ns)
{
	u64 changes = control_word(CONTROL_SIDE_CHANGES);
	u64 other = control_word(CONTROL_SEAM_NS + (~changes & 1));

	*seam_ns = control_word(CONTROL_SEAM_NS + (changes & 1));
	if (now >= other && other > *seam_ns) {
		/* The next seam, and the side is not changed yet. */
		*seam_ns = other;
		return changes + 1;
	}
	if (now < *seam_ns) {
		/* The side was changed after the program had read the clock. */
		*seam_ns = other;
		return changes - 1;
	}
	return changes;
}

/* As begin_run, for a program that ends stretches at `now`. */
static __always_inline void begin_run_of_threads(struct sampler_state *s, u32 slot, u64 now)
{
	u64 seam_ns, changes = changes_at(now, &seam_ns);

	add_to_side(s, slot, EVENT_SCHEDULER, changes);
	s->seam_ns = seam_ns;
	s->gathers = seam_ns && control_word(CONTROL_GATHERED_SEAM_NS) == seam_ns;
}

/*
 * Whether the part of a stretch before a seam was accounted at the seam: if the stretch was long enough by then.
 * Otherwise all of it is accounted later, at the next seam or at its end.
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

/* Whether the thread was there at the seam whose records user space gathers. */
static __always_inline bool was_at_seam(struct sampler_state *s, struct thread *t)
{
	return s->gathers && t->since && t->born < s->seam_ns;
}

/* Besides, whether its present stretch was open at that seam. */
static __always_inline bool is_split(struct sampler_state *s, struct thread *t)
{
	return was_at_seam(s, t) && t->since < s->seam_ns;
}

/*
 * Writes the seam record of a thread: the parts of its present stretch and of its life before the last seam. With key 0
 * it writes only the part of its life. `flags`: BPF_NOEXIST unless the program ends the stretch. The record is put
 * together in the sampler state, because it would take much of the stack.
 */
static __noinline int write_seam_record(struct sampler_state *s, struct thread *t, u64 key, u64 flags)
{
	struct seam_record *record = &s->seam_record;
	u64 previous = control_word(CONTROL_PREVIOUS_SEAM_NS + side_of(s));
	u64 seam = s->seam_ns, from = t->since, id = t->id;
	u64 min_ns = t->state == OFF_NONE ? 0 : min_block_ns;
	/* Of other states, only the stack is wanted: of waits for locks. */
	bool has_time = t->state == OFF_NONE || state_is(recorded_states, t->state);
	long error;

	*record = (struct seam_record){.seam_ns = seam, .key = key};
	if (key && has_time && accounted_at(seam, t->since, min_ns)) {
		if (accounted_at(previous, t->since, min_ns))
			from = previous;
		record->value = seam - from;
		record->waited = t->state == OFF_NONE ? 0 : waited_in(t, from, seam);
	}
	if (locks && t->lock && key && t->since < seam) {
		record->lock = s->lock_run.open_key;
		record->lock_ns = seam - (t->since > previous ? t->since : previous);
	}
	from = t->born > previous ? t->born : previous;
	if (wall_clock && from < seam)
		record->lifetime = seam - from;
	if (!record->key && !record->lifetime)
		return 0;
	error = bpf_map_update_elem(&seam_records, &id, record, flags);
	if (error && error != -EEXIST)
		count(counters_in(s), COUNT_SEAMS_LOST, 1);
	return 0;
}

/* The wait of a thread for a lock may be split at the seam: tells its key, which the seam record has. */
static __always_inline void open_lock_at_seam(struct sampler_state *s, struct thread *t, struct task_struct *task)
{
	if (!locks || !t->lock || !t->key)
		return;
	begin_lock_run(s, t, task, t->state);
	tell_open_lock(s->slot);
}

/*
 * The present stretch of a thread ends, and user space gathers the records of a seam: writes the record of the thread,
 * unless the stretch needs none. Not inlined, because it is rarely called.
 */
static __noinline int note_seam(struct sampler_state *s, struct thread *t, u64 key)
{
	if (is_split(s, t))
		return write_seam_record(s, t, key, BPF_ANY);
	if (key && t->state != OFF_NONE)
		return write_seam_record(s, t, key, BPF_NOEXIST);
	return 0;
}

/*
 * Adds the life of a thread until `end`. The part before the last seam is in the seam record. The thread has no such
 * record yet if a program that did not know of the seam ended its stretch at the seam.
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
 * would find it. So its life up to its present stretch is counted here, and the rest at each switch from here on. A
 * kernel that preempts programs may switch the thread between reading `born` and setting it; then a few instructions of
 * its life are counted twice.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exits, struct task_struct *task)
{
	u64 since, from, seam, changes = changes_at(bpf_ktime_get_ns(), &seam);
	struct thread *t = thread_of(task);

	if (!t)
		return 0;
	since = t->since;
	from = t->born;
	if (from < seam) {
		/* Its life before the seam is still to be written into a record. */
		if (control_word(CONTROL_GATHERED_SEAM_NS) == seam)
			return 0;
		from = seam;
	}
	if (since > from) {
		count_alone_on(changes & 1, EVENT_SCHEDULER, COUNT_LIFETIME_NS, since - from);
		t->born = since;
	}
	return 0;
}

#endif
