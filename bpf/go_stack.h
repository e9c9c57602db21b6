/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Steps from the thread's own stack to that of a goroutine, where Go's runtime keeps the goroutine's registers in
 * memory. The current `g` is in thread-local storage; `m` is the thread; `g0` has the thread's own stack. What is read
 * here is not on the walked stack, so the memo does not verify it, and the frame is marked.
 */
#ifndef PERF_AGENT_GO_STACK_H
#define PERF_AGENT_GO_STACK_H

#include "walk_state.h"

static __always_inline u64 word_of_process(u64 at, u64 *word)
{
	return read_user(word, sizeof(*word), at) != 0;
}

/* What a `g` has saved. */
struct saved_registers {
	u64 sp;
	u64 pc;
};

static __always_inline u64 saved_in(struct rule *rule, u64 g, struct saved_registers *saved)
{
	return read_user(saved, sizeof(*saved), g + (u16)rule->fp_off) != 0;
}

/* The caller of asmcgocall, from the frame that it built on the thread's stack. Not 0: it could not be read. */
static __always_inline u64 caller_of_c(struct walk *w, struct rule *rule)
{
	u64 g, sp, end;

	if (word_of_process(w->sp + (s64)rule->cfa_off, &g) || word_of_process(w->sp + (s64)rule->ra_off, &sp))
		return 1;
	if (g) {
		if (word_of_process(g + (s64)rule->cfa_add, &end))
			return 1;
		sp = end - sp;
	}
	if (word_of_process(sp, &w->pc))
		return 1;
	w->sp = sp + 8;
	return 0;
}

/* The goroutine that goes on: sp is its own already, and rbp if it is no longer saved. Not 0: it could not be read. */
static __always_inline u64 resumed_goroutine(struct walk *w, struct rule *rule)
{
	u64 thread = thread_pointer(), g, fp;
	struct saved_registers saved;

	if (!thread || word_of_process(thread + (s64)rule->cfa_off, &g) || !g || saved_in(rule, g, &saved) ||
	    !saved.pc || word_of_process(g + (u16)((u32)rule->fp_off >> 16), &fp))
		return 1;
	if (fp)
		w->fp = fp;
	w->pc = saved.pc;
	return 0;
}

/* The function of C that called into Go, by the frame above the sp that `g0` has saved. Not 0: it could not be read. */
static __always_inline u64 caller_of_go(struct walk *w, struct rule *rule, u64 sp)
{
	u64 words = rule->flags & RULE_REG;

	if (words < 2 || word_of_process(sp + (words - 2) * 8, &w->fp) || word_of_process(sp + (words - 1) * 8, &w->pc))
		return 1;
	w->sp = sp + words * 8;
	return 0;
}

/* The caller by what the running goroutine has saved. Not 0: it could not be read. */
static __always_inline u64 caller_of_goroutine(struct walk *w, struct rule *rule)
{
	u64 thread = thread_pointer(), g, m, running, left;
	struct saved_registers saved;

	if (!thread || word_of_process(thread + (s64)rule->cfa_off, &g) || !g ||
	    word_of_process(g + (s64)rule->ra_off, &m) || !m || word_of_process(m + (s64)rule->cfa_add, &running))
		return 1;
	if (rule->cfa == CFA_GO_LEAVE) {
		if (word_of_process(w->sp, &left))
			return 1;
		if (left != running)
			running = 0;
	}
	if (rule->cfa == CFA_GO_CALL) {
		if (!running || saved_in(rule, running, &saved) || !saved.sp || word_of_process(saved.sp, &w->pc))
			return 1;
		w->sp = saved.sp + 8;
		return 0;
	}
	/* The goroutine has left the thread: the scheduler goes on in the first frame of the thread's own stack. */
	left = !running;
	if (left && (word_of_process(m, &running) || !running))
		return 1;
	if (saved_in(rule, running, &saved) || !saved.sp)
		return 1;
	if (left && !saved.pc)
		return caller_of_go(w, rule, saved.sp);
	if (!saved.pc || word_of_process(running + (u16)((u32)rule->fp_off >> 16), &w->fp))
		return 1;
	w->sp = saved.sp;
	w->pc = saved.pc;
	return 0;
}

/* Goes from the frame that was taken down last to its caller. Non-zero: the walk ended. */
__noinline int walk_go(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct cached_rule *cached;
	struct frame *f;
	struct rule rule;
	u64 failed;

	if (!w)
		return 1;
	cached = cached_rule_of(w, w->pc);
	rule = cached->rule;
	f = &w->frames[(w->n - 1) & (MAX_USER_FRAMES - 1)];
	f->pc |= FRAME_NOT_IN_MEMO;
	failed = 1;
	if (rule.cfa == CFA_GO_CALL_OF_C)
		failed = caller_of_c(w, &rule);
	else if (rule.cfa == CFA_GO_RESUME)
		failed = resumed_goroutine(w, &rule);
	else if (rule.cfa != CFA_SWITCH)
		failed = caller_of_goroutine(w, &rule);
	if (failed) {
		w->end = WALK_STACK_SWITCH;
		return 1;
	}
	w->pc &= FRAME_PC;
	/* No call: the first instruction of a function, or one behind a call. */
	if (rule.cfa == CFA_GO_RESUME)
		w->pc |= FRAME_EXACT;
	w->guess = GUESS_SWITCH;
	return 0;
}

#endif
