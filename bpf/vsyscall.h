/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The page of legacy system calls ([vsyscall] in /proc/PID/maps). Its functions have no frame: the kernel makes the
 * call when one is entered, and then returns for it (emulate_vsyscall, arch/x86/entry/vsyscall/vsyscall_64.c). The page
 * is in no table of mappings, so a walk that begins in it finds no mapping.
 */
#ifndef PERF_AGENT_VSYSCALL_H
#define PERF_AGENT_VSYSCALL_H

#include "stack_window.h"

#ifdef VSYSCALL_PAGE

static __always_inline int in_vsyscall_page(u64 pc)
{
	return (pc & FRAME_PC) - (VSYSCALL_PAGE & FRAME_PC) < VSYSCALL_BYTES;
}

/*
 * For a pc outside of all mappings. Takes down the innermost frame, if it is in the page, and goes to its caller. Not
 * 0: it did.
 *
 * A compiler may let the kernel move the stack pointer over the return address before it sets the pc. A sample between
 * the two finds another word at the stack pointer. So if that word is in no mapping, the word below is the caller.
 */
__noinline int leave_vsyscall(u32 slot)
{
	struct walk *w = walk_at(slot);
	u64 sp, ra = 0;

	if (!w || w->n > 1)
		return 0;
	sp = w->frames[0].sp;
	if (!w->n) {
		if (!in_vsyscall_page(w->pc))
			return 0;
		/* The memo knows only frames that a rule or a frame pointer led from. */
		w->frames[0].pc |= FRAME_NOT_IN_MEMO;
		if (!read_word(w, slot, sp, &ra))
			w->sp = sp + sizeof(u64);
	} else if (!in_vsyscall_page(w->frames[0].pc) || w->sp != sp + sizeof(u64)) {
		return 0;
	}
	if (!(ra & FRAME_PC)) {
		if (read_word(w, slot, sp - sizeof(u64), &ra) || !(ra & FRAME_PC))
			return 0;
		w->sp = sp;
	}
	w->n = 1;
	w->pc = ra & FRAME_PC;
	return 1;
}

#else

static __always_inline int leave_vsyscall(u32 slot)
{
	return 0;
}

#endif

#endif
