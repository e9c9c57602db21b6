/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The walk of the current thread's user stack, whatever the occasion. */
#ifndef PERF_AGENT_WALK_CURRENT_H
#define PERF_AGENT_WALK_CURRENT_H

#include "processes.h"
#include "python.h"
#include "uprobe_task.h"
#include "walk.h"

/*
 * Each CPU has memos for each event. Programs of one event never interrupt each other while they walk; those that
 * follow threads in other contexts than the scheduler's have memos of their own.
 */
static __always_inline u32 memo_of(enum sampler_context context, u32 cpu, u32 event, u32 tid)
{
	if (event != EVENT_SCHEDULER)
		return first_memo + cpu * sampler_memos + ((tid ^ (tid >> 2)) & (sampler_memos - 1));
	if (context == CONTEXT_PROBE || context == CONTEXT_KERNEL_LOCK)
		return first_lock_memo + (2 * cpu + (context == CONTEXT_PROBE)) * lock_memos + (tid & (lock_memos - 1));
	return possible_cpus * sampler_memos + cpu * sched_memos + (tid & (sched_memos - 1));
}

/* Walks the stack just walked with the help of a memo again without, and compares. */
static __always_inline void check_walk(struct counters *c, struct walk *w, u32 slot)
{
	u64 hash = w->hash;
	u32 total = w->total, end = w->end;

	w->depth = 0;
	/* No rule is remembered under a number that there was not before, so that all are searched. */
	w->generation = generation_in((u32)(w->generation >> 32), (u32)bpf_ktime_get_ns() | 1U << 31);
	walk_run(slot);
	walk_rehash(w, slot);
	count(c, COUNT_MEMO_CHECKED, 1);
	if (w->hash != hash || w->total != total || w->end != end)
		count(c, COUNT_MEMO_DIFFERED, 1);
	w->hash = hash;
	w->total = total;
	w->end = end;
}

/*
 * Whether the memory at the stack pointer cannot be read. In exec, between the end of the old memory and the start of
 * the new program, the registers are still those of the old program, and the mappings of the new one are not known.
 */
static __noinline int stack_is_gone(struct walk *w)
{
	u64 word;

	return read_user(&word, sizeof(word), w->start_sp) != 0;
}

/*
 * Walks the Python frames of the current thread, after its native walk, because an evaluator frame tells whether its
 * call has begun. They are part of the stack, so their hash is part of its hash.
 */
static __always_inline void add_python(struct sampler_state *s, struct counters *c, struct proc *proc,
				       struct sample *sample)
{
	struct python_walk *p = claim_python_walk(s, sample->slot);

	if (!p) {
		count(c, COUNT_PYTHON_WALKS + PYTHON_FAULT, 1);
		return;
	}
	p->index = proc->python - 1;
	p->pid = sample->pid;
	p->exec_id = sample->exec_id;
	p->sent = 0;
	p->unsent = 0;
	p->unreadable = 0;
	python_run(sample->slot);
	count(c, COUNT_PYTHON_WALKS + p->end, 1);
	if (p->flags & PYTHON_HALF_LINKED)
		count(c, COUNT_PYTHON_HALF_LINKED, 1);
	if (p->sent)
		count(c, COUNT_CODES_SENT, p->sent);
	if (p->unsent)
		count(c, COUNT_CODES_UNSENT, p->unsent);
	if (p->unreadable)
		count(c, COUNT_CODES_UNREADABLE, p->unreadable);
	s->walk.hash = hash_mix(hash_mix(s->walk.hash, p->hash), p->end | p->flags);
	sample->python_sections = 1;
}

/* To be called when the sample of a walk is added, sent or lost. */
static __always_inline void end_walk(struct sampler_state *s, struct sample *sample)
{
	if (python && sample->python_sections)
		release_python_walk(s);
}

/* Takes the registers at a return to those in the caller. Returns whether the return address cannot be read. */
static __always_inline bool step_to_caller(struct user_registers *user)
{
#if RETURN_POPS
	u64 to;

	if (read_user(&to, sizeof(to), user->sp))
		return true;
	user->pc = to;
	user->sp += RETURN_POPS;
#endif
	return false;
}

/* Walks the user stack of the current thread. Returns how it ended; hash and length are in the walk. After the sample
 * comes end_walk. */
static __always_inline u32 walk_current(struct sampler_state *s, enum sampler_context context, struct proc *proc,
					struct sample *sample)
{
	struct counters *c = counters_in(s);
	struct walk *w = &s->walk;
	struct user_registers user = {};
	bool in_callee = false;
	struct memo *m;
	u32 end;

	if (kernel_stacks_by_process)
		sample->flags = proc->flags;
	w->total = 0;
	w->hash = seed;
	if (!current_registers(&user))
		return without_registers((void *)bpf_get_current_task(), &user);
	if (sample->at_return)
		in_callee = step_to_caller(&user);
	w->start_pc = (user.pc & FRAME_PC) | FRAME_EXACT;
	w->start_sp = user.sp;
	w->start_fp = user.fp;
	w->start_regs = user.at;
	w->mappings = proc->mappings;
	w->count = proc->count;
	w->memo = memo_of(context, sample->slot - first_slot[context], sample->event, sample->tid);
	if (without_memo) {
		m = memo_at(w->memo);
		if (m)
			m->depth = 0;
	}
	walk_stack(w, sample->slot, sample->exec_id, sample->tid, generation_in(epoch_now(), proc->generation));
	count(c, COUNT_FRAMES, w->total);
	count(c, COUNT_FRAMES_WALKED, w->n);
	if (w->undecided || in_callee)
		count(c, COUNT_LEAVES_UNDECIDED, 1);
	if (w->matched) {
		count(c, COUNT_MEMO_HITS, 1);
		if (check_memo)
			check_walk(c, w, sample->slot);
	}
	end = w->end;
	if ((end == WALK_FAULT || (end == WALK_NO_MAPPING && stack_is_gone(w))) && in_exec())
		end = WALK_EXITING;
	if (end == WALK_NO_MAPPING) {
		if (!w->nowhere)
			mappings_are_stale(c, sample->pid);
		if (proc->flags & PROC_NEW)
			end = WALK_TABLE_NOT_READY;
	}
	if (python && proc->python && end != WALK_EXITING)
		add_python(s, c, proc, sample);
	return end;
}

#endif
