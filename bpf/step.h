/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* One frame: take it down, find the rule, go to its caller. */
#ifndef PERF_AGENT_STEP_H
#define PERF_AGENT_STEP_H

#include "go_stack.h"
#include "leaf_code.h"
#include "link_register.h"
#include "tables.h"
#include "uprobes.h"
#include "vsyscall.h"

static __always_inline int walk_ends(struct walk *w, u32 end)
{
	w->end = end;
	return 1;
}

/* The place of a frame's word. Without a branch, because the verifier would follow both sides of each. */
static __always_inline u32 word_at(struct frame *f, u64 address, u64 sp)
{
	u64 offset = address - sp + OFFSET_ZERO;

	/* The mark is set if the offset does not fit: then the negative number has its top bit. */
	f->pc |= (0 - (offset >> 32)) >> 63 << FRAME_NOT_IN_MEMO_BIT;
	return (u32)offset;
}

/*
 * Ends a walk. If it guessed a step because no row covered an address, what it found after that may be wrong: it
 * reports the missing row.
 */
static __always_inline int guess_ends(struct walk *w, u32 end)
{
	if (w->guess == GUESS_SWITCH)
		end = WALK_STACK_SWITCH;
	return walk_ends(w, w->guess == GUESS_NO_ROW ? WALK_NO_ROW : end);
}

/* The caller by frame pointer: {saved frame pointer, return address} lie where fp points. */
static __always_inline int step_by_fp(struct walk *w, u32 slot, struct frame *f)
{
	u64 sp = w->sp, fp = w->fp, saved, ra;

	/* rbp need not be a frame pointer here. A root has a rule that says so, and 0 is none. */
	if (!fp)
		return guess_ends(w, WALK_ZERO_FRAME);
	/* The offset must fit a frame's description; no real frame is that large. */
	if (fp < sp || (fp & 7) || fp - sp > 0x7ffffff0)
		return guess_ends(w, WALK_FP_CHAIN);
	if (read_word(w, slot, fp, &saved) || read_word(w, slot, fp + 8, &ra))
		return guess_ends(w, WALK_FAULT);
	f->pc |= FRAME_BY_FP;
	f->fp_at = word_at(f, fp, sp);
	f->ra_at = word_at(f, fp + 8, sp);
	if (!ra)
		return guess_ends(w, WALK_ZERO_FRAME);
	forget_link(w);
	w->pc = ra & FRAME_PC;
	w->sp = sp_behind_record(fp);
	w->fp = saved;
	return 0;
}

/* Whether the frame before may have been called from behind the byte that has this rule: it is in the mapping of the
 * rule, which was searched for this frame. */
static __always_inline bool is_called(struct walk *w, struct rule *rule)
{
	u64 in = w->frames[(w->n - 2) & (MAX_USER_FRAMES - 1)].pc & FRAME_PC;

	return (rule->flags & RULE_OWN_CALL) == RULE_OWN_CALL && in - w->map_start < w->map_size;
}

static __always_inline int step_by_rule(struct walk *w, u32 slot, struct frame *f, struct cfa_word *word,
					struct rule *rule)
{
	u64 sp = w->sp, fp = w->fp, cfa, ra, at;
	bool jump = false; /* the CFA does not follow from sp: it may lie anywhere, as on another stack */

	if (rule->ra == RA_UNDEFINED)
		return walk_ends(w, WALK_ROOT);
	if (rule->flags & RULE_START && !(f->pc & FRAME_EXACT)) {
		if (!is_called(w, rule)) {
			/* The function is to run when its caller returns, and never ran. */
			w->n--;
			return guess_ends(w, WALK_ROOT);
		}
		/* That depends on the frame before, which the memo does not compare. */
		f->pc |= FRAME_NOT_IN_MEMO;
	}

	switch (rule->cfa) {
	case CFA_SP:
		cfa = sp + (s64)rule->cfa_off;
		break;
	case CFA_FP:
		cfa = fp + (s64)rule->cfa_off;
		/* A frame that is its own caller would fill the stack. */
		jump = cfa != sp;
		break;
	case CFA_PLT:
		cfa = sp + (s64)rule->cfa_off + ((w->pc & 15) >= (u64)(u16)rule->cfa_add ? 8 : 0);
		break;
	case CFA_REG:
		if (register_of(w, rule->flags & RULE_REG, &cfa))
			return walk_ends(w, WALK_UNSUPPORTED_RULE);
		cfa += (s64)rule->cfa_off;
		f->pc |= FRAME_NOT_IN_MEMO;
		jump = cfa != sp;
		break;
	case CFA_SP_DEREF:
	case CFA_FP_DEREF:
		at = (rule->cfa == CFA_SP_DEREF ? sp : fp) + (s64)rule->cfa_off;
		if (read_word(w, slot, at, &cfa))
			return walk_ends(w, WALK_FAULT);
		cfa += (s64)rule->cfa_add;
		f->pc |= FRAME_CFA_WORD;
		word->at = word_at(f, at, sp);
		word->add = rule->cfa_add;
		jump = true;
		break;
	default:
		return rule->cfa >= CFA_SWITCH ? walk_go(slot) : walk_ends(w, WALK_UNSUPPORTED_RULE);
	}
	/* A function with its return address in a register may have nothing on the stack, as vfork. */
	if (!jump && (rule->ra == RA_REG ? cfa < sp : cfa <= sp))
		return walk_ends(w, WALK_FP_CHAIN);

	if (rule->fp == FP_UNDEFINED) {
		w->fp = 0;
	} else if (rule->fp != FP_SAME) {
		/* Read before the return address, which lies above it: the window opens upwards. */
		at = rule->fp == FP_CFA ? cfa : rule->fp == FP_SP ? sp : fp;
		at += (s64)rule->fp_off;
		if (read_word(w, slot, at, &w->fp))
			return walk_ends(w, WALK_FAULT);
		f->fp_at = word_at(f, at, sp);
	}

	if (rule->ra == RA_REG) {
		if (register_of(w, (u32)rule->ra_off, &ra))
			return walk_ends(w, WALK_UNSUPPORTED_RULE);
		f->pc |= FRAME_NOT_IN_MEMO;
	} else {
		at = rule->ra == RA_CFA ? cfa : rule->ra == RA_SP ? sp : fp;
		at += (s64)rule->ra_off;
		if (read_word(w, slot, at, &ra))
			return walk_ends(w, WALK_FAULT);
		f->ra_at = word_at(f, at, sp);
	}
	if (!ra)
		return walk_ends(w, (rule->flags & RULE_OWN_CALL) == RULE_ENTRY ? WALK_ROOT : WALK_ZERO_FRAME);
	keep_link(w, slot, rule);
	w->pc = (ra & FRAME_PC) | (rule->flags & RULE_SIGNAL ? FRAME_EXACT : 0);
	w->sp = cfa;
	w->guess = GUESS_NONE;
	return 0;
}

/* Takes down the frame in w->pc, sp, fp and goes to its caller. Non-zero: the walk ended, w->end says how. */
__noinline int walk_step(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct cached_rule *cached;
	int found = FOUND, ended;
	struct cfa_word *word;
	struct rule *rule;
	struct frame *f;
	u32 address = 0;
	u64 at;

	if (!w)
		return 1;
	if (w->n >= MAX_USER_FRAMES)
		return walk_ends(w, WALK_FRAME_LIMIT);
	f = &w->frames[w->n & (MAX_USER_FRAMES - 1)];
	word = &w->cfas[w->n & (MAX_USER_FRAMES - 1)];
	f->pc = w->pc;
	f->sp = w->sp;
	f->fp = w->fp;
	f->ra_at = NO_WORD;
	f->fp_at = NO_WORD;

	cached = cached_rule_of(w, w->pc);
	if (cached->pc != w->pc || cached->generation != w->generation) {
		at = w->pc & FRAME_PC;
		if (!(w->pc & FRAME_EXACT))
			at--;
		found = find_rule(w, slot, at, &address);
		if (found == FOUND) {
			rule = rule_in_pool(address);
			if (!rule) {
				w->n++;
				return walk_ends(w, WALK_UNSUPPORTED_RULE);
			}
			cached->pc = w->pc;
			cached->generation = w->generation;
			cached->rule = *rule;
			/* The mapping counts too: it is searched again. */
			if ((rule->flags & RULE_OWN_CALL) == RULE_OWN_CALL)
				cached->pc = 0;
		}
	}
	if (found == FIND_NO_MAPPING || found == FIND_NOWHERE) {
		if (leave_uprobes(slot) || leave_vsyscall(slot))
			return 0;
		/* A caller outside of all mappings is no caller. The pc of a leaf is true in any case. */
		if (!w->n)
			w->n = 1;
		w->nowhere = found == FIND_NOWHERE;
		return guess_ends(w, w->guess == GUESS_NONE ? WALK_NO_MAPPING : WALK_FP_CHAIN);
	}
	w->n++;
	if (found == FIND_NOT_READY)
		return walk_ends(w, WALK_TABLE_NOT_READY);
	if (found == FOUND && !needs_stack_pointer(w, &cached->rule)) {
		ended = step_by_rule(w, slot, f, word, &cached->rule);
	} else {
		if (found != FOUND)
			w->guess = found == FIND_NO_ROW ? GUESS_NO_ROW : GUESS_NO_TABLE;
		if (!step_by_code(w, slot, f, &ended))
			ended = step_by_fp(w, slot, f);
	}
	w->regs = 0;
	return ended;
}

#endif
