/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Rules for processors with a link register. A function finds its return address in that register, not on the stack,
 * and its frame record, {frame pointer, return address}, may lie anywhere in its frame.
 */
#ifndef PERF_AGENT_LINK_H
#define PERF_AGENT_LINK_H

#include "stack_window.h"

#ifdef LINK_REGISTER

/*
 * A signal may interrupt a function that has not saved its return address. The link register is behind the frame
 * pointer in the signal's frame (struct sigcontext, arch/arm64/include/uapi/asm/sigcontext.h).
 */
static __always_inline void keep_link(struct walk *w, u32 slot, struct rule *rule)
{
	w->link = 0;
	if (rule->flags & RULE_SIGNAL && rule->fp == FP_SP &&
	    read_word(w, slot, w->sp + (s64)rule->fp_off + 8, &w->link))
		w->link = 0;
}

static __always_inline void forget_link(struct walk *w)
{
	w->link = 0;
}

static __always_inline bool link_of(struct walk *w, u32 dwarf_number, u64 *value)
{
	*value = w->link;
	return dwarf_number == LINK_REGISTER && w->link;
}

/*
 * After a step by frame pointer the stack pointer is not known. The value in its place is lower than the stack pointer
 * can be. It is odd, so the memo does not take such a frame for one whose stack pointer is known.
 */
static __always_inline u64 sp_behind_record(u64 fp)
{
	return fp + 15;
}

/* Whether a rule cannot be used where the stack pointer is not known. */
static __always_inline bool needs_stack_pointer(struct walk *w, struct rule *rule)
{
	return w->sp & 1 && (rule->cfa == CFA_SP || rule->cfa == CFA_SP_DEREF) && rule->ra != RA_UNDEFINED;
}

#else

static __always_inline void keep_link(struct walk *w, u32 slot, struct rule *rule)
{
}

static __always_inline void forget_link(struct walk *w)
{
}

static __always_inline bool link_of(struct walk *w, u32 dwarf_number, u64 *value)
{
	return false;
}

static __always_inline u64 sp_behind_record(u64 fp)
{
	return fp + 16;
}

static __always_inline bool needs_stack_pointer(struct walk *w, struct rule *rule)
{
	return false;
}

#endif

/* A register of the innermost frame, or the link register of one that a signal interrupted. Non-zero: not known. */
static __always_inline u64 register_of(struct walk *w, u32 dwarf_number, u64 *value)
{
	if (link_of(w, dwarf_number, value))
		return 0;
	return !w->regs || saved_register(w->regs, dwarf_number, value);
}

#endif
