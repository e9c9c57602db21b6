/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The walk: from user registers to a stack with its hash.
 *
 * Functions with loops are global and take a scalar, so the verifier checks each of them alone. Their state is in maps.
 * A step that also compared the memo would exceed the verifier's limit.
 */
#ifndef PERF_AGENT_WALK_H
#define PERF_AGENT_WALK_H

#include "memo.h"
#include "step.h"

/* A batch of walk_run. */
__noinline int run_batch(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct memo *m;
	u32 i;

	if (!w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	for (i = 0; i < BATCH; i++) {
		/* Call only if the next frame of the memo is not further out. */
		if (w->depth && m->frames[(w->depth - 1) & (MAX_USER_FRAMES - 1)].sp <= w->sp && meet_memo(slot))
			return DONE;
		if (walk_step(slot))
			return DONE;
	}
	return MORE;
}

/* Walks from w->start_* until something ends it. With w->depth, frames of the memo may end it early. */
__noinline int walk_run(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct memo *m;
	u32 i;

	if (!w)
		return 1;
	w->pc = w->start_pc;
	w->sp = w->start_sp;
	w->fp = w->start_fp;
	w->regs = w->start_regs;
	forget_link(w);
	w->end = WALK_FRAME_LIMIT;
	w->n = 0;
	w->matched = 0;
	w->guess = GUESS_NONE;
	w->map_size = 0;
	w->nowhere = 0;
	w->undecided = 0;
	window_reset(w);
	m = memo_at(w->memo);
	/* All words up to the root will be read, whether the memo matches or not. */
	if (m && w->depth) {
		w->win_limit = m->frames[0].sp;
		w->win_size = WINDOW;
	}
	for (i = 0; i <= BATCHES; i++)
		if (run_batch(slot))
			break;
	return 0;
}

/*
 * Walks the stack of a thread; the result is in w->end, hash, total, and its frames in the memo w->memo, root
 * first. The caller has set w->start_*, mappings, count and slot.
 */
static __always_inline void walk_stack(struct walk *w, u32 slot, u64 exec_id, u32 tid, u64 generation)
{
	struct memo *m = memo_at(w->memo);

	w->depth = 0;
	w->generation = generation;
	if (!m)
		return;
	if (m->tid == tid && m->exec_id == exec_id && m->generation == generation)
		w->depth = m->depth;
	m->tid = tid;
	m->exec_id = exec_id;
	m->generation = generation;
	walk_run(slot);
	if (w->matched + w->n > MAX_USER_FRAMES) {
		/* Too deep: what is kept is the inner side, which is not what the memo has. */
		w->depth = 0;
		walk_run(slot);
	}
	walk_push(w, m, slot);
	/* The memo verifies no word that belongs to its root, so it is kept only if there is none. */
	if (w->end != WALK_ROOT || m->frames[0].ra_at != NO_WORD)
		m->depth = 0;
}

#endif
