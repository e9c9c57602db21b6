/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The verified memo. A walk is a function of the start registers, the tables and the words of the stack that it
 * reads. So if a frame of a new walk equals a frame of the thread's last walk in (pc, sp, fp), and every word that
 * tells the callers outside of it is unchanged, the rest of the last walk is the rest of the new one. Nothing is
 * assumed: every word is read again; only the searches in the tables are saved.
 */
#ifndef PERF_AGENT_MEMO_H
#define PERF_AGENT_MEMO_H

#include "stackhash.h"
#include "stack_window.h"

/* A batch of walk_match: drops frames of the memo that lie inside of w->sp. */
__noinline int match_batch(u32 slot)
{
	struct walk *w = walk_at(slot);
	u32 depth, i, done = MORE;
	struct memo *m;
	u64 sp;

	if (!w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	depth = w->depth;
	sp = w->sp;
	for (i = 0; i < BATCH; i++) {
		if (!depth || m->frames[(depth - 1) & (MAX_USER_FRAMES - 1)].sp >= sp) {
			done = DONE;
			break;
		}
		depth--;
	}
	w->depth = depth;
	return done;
}

/* Drops the frames of the memo that lie inside of w->sp. True: the next one equals the current frame. */
static __always_inline bool walk_match(struct walk *w, struct memo *m, u32 slot)
{
	struct frame *f;
	u32 i;

	f = &m->frames[(w->depth - 1) & (MAX_USER_FRAMES - 1)];
	if (f->sp < w->sp) {
		for (i = 0; i < BATCHES; i++)
			if (match_batch(slot))
				break;
		if (!w->depth)
			return false;
		f = &m->frames[(w->depth - 1) & (MAX_USER_FRAMES - 1)];
	}
	return f->sp == w->sp && (f->pc & (FRAME_PLACE | FRAME_NOT_IN_MEMO)) == w->pc && f->fp == w->fp;
}

/* A batch of walk_verify: goes outward from w->at as long as nothing differs. */
__noinline int verify_batch(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct frame *in, *out;
	struct cfa_word *cfa;
	struct view view;
	struct memo *m;
	u64 word, base;
	u32 at, i;

	if (!w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	at = w->at;
	view = view_of(w);
	in = &m->frames[at & (MAX_USER_FRAMES - 1)];
	for (i = 0; i < BATCH; i++) {
		if (!at)
			break;
		out = &m->frames[(at - 1) & (MAX_USER_FRAMES - 1)];
		base = in->sp - OFFSET_ZERO;
		if (in->fp_at != NO_WORD && (view_word(w, slot, &view, base + in->fp_at, &word) || word != out->fp))
			break;
		if (view_word(w, slot, &view, base + in->ra_at, &word) || (word ^ out->pc) & FRAME_PC)
			break;
		if (in->pc & (FRAME_CFA_WORD | FRAME_NOT_IN_MEMO)) {
			cfa = &m->cfas[at & (MAX_USER_FRAMES - 1)];
			if (in->pc & FRAME_NOT_IN_MEMO || view_word(w, slot, &view, base + cfa->at, &word) ||
			    word + (s64)cfa->add != out->sp)
				break;
		}
		in = out;
		at--;
	}
	w->at = at;
	return i < BATCH ? DONE : MORE;
}

/* Whether the words of all frames outside of the matching one are unchanged. If not, the memo keeps the frames outside
 * of the first difference. */
static __always_inline bool walk_verify(struct walk *w, u32 slot)
{
	u32 i;

	w->at = w->depth - 1;
	for (i = 0; i < BATCHES; i++)
		if (verify_batch(slot))
			break;
	if (!w->at)
		return true;
	w->depth = w->at;
	return false;
}

/* DONE: the current frame is one of the memo, and the rest of the memo is still true. */
__noinline int meet_memo(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct memo *m;

	if (!w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	if (!walk_match(w, m, slot) || !walk_verify(w, slot))
		return MORE;
	w->matched = w->depth;
	w->end = WALK_ROOT;
	return DONE;
}

/* A batch of walk_push: moves walked frames, from the outermost, on top of the memo. */
__noinline int push_batch(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct frame *from, *to;
	u32 depth, n, i;
	struct memo *m;
	u64 hash;

	if (!w)
		return DONE;
	m = memo_at(w->memo);
	if (!m)
		return DONE;
	depth = w->total;
	n = w->left;
	hash = w->hash;
	for (i = 0; i < BATCH; i++) {
		if (!n)
			break;
		n--;
		from = &w->frames[n & (MAX_USER_FRAMES - 1)];
		to = &m->frames[depth & (MAX_USER_FRAMES - 1)];
		hash = hash_mix(hash, from->pc & FRAME_OUTSIDE);
		*to = *from;
		if (from->pc & FRAME_CFA_WORD)
			m->cfas[depth & (MAX_USER_FRAMES - 1)] = w->cfas[n & (MAX_USER_FRAMES - 1)];
		m->hashes[depth & (MAX_USER_FRAMES - 1)] = hash;
		depth++;
	}
	w->total = depth;
	w->left = n;
	w->hash = hash;
	return i < BATCH ? DONE : MORE;
}

/* Puts the walked frames on top of the matched ones; gives the hash and the number of frames of the stack. */
static __always_inline void walk_push(struct walk *w, struct memo *m, u32 slot)
{
	u32 i;

	w->total = w->matched;
	w->left = w->n;
	w->hash = hash_seed();
	if (w->matched)
		w->hash = m->hashes[(w->matched - 1) & (MAX_USER_FRAMES - 1)];
	for (i = 0; i <= BATCHES; i++)
		if (push_batch(slot))
			break;
	m->depth = w->total;
}

/* A batch of walk_rehash. */
__noinline int rehash_batch(u32 slot)
{
	struct walk *w = walk_at(slot);
	u32 i;

	if (!w)
		return DONE;
	for (i = 0; i < BATCH; i++) {
		if (!w->left)
			return DONE;
		w->left--;
		w->hash = hash_mix(w->hash, w->frames[w->left & (MAX_USER_FRAMES - 1)].pc & FRAME_OUTSIDE);
	}
	return MORE;
}

/* The hash of the frames of a walk without a memo, as walk_push would give it. */
static __always_inline void walk_rehash(struct walk *w, u32 slot)
{
	u32 i;

	w->total = w->n;
	w->left = w->n;
	w->hash = hash_seed();
	for (i = 0; i <= BATCHES; i++)
		if (rehash_batch(slot))
			break;
}

#endif
