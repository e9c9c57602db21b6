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

/* Takes down the innermost frame, if it is in the page, and goes to its caller. Not 0: it did. */
__noinline int leave_vsyscall(u32 slot)
{
	struct walk *w = walk_at(slot);
	u64 ra;

	if (!w || w->n || (w->pc & FRAME_PC) - (VSYSCALL_PAGE & FRAME_PC) >= VSYSCALL_BYTES)
		return 0;
	/* The memo knows only frames that a rule or a frame pointer led from. */
	w->frames[0].pc |= FRAME_NOT_IN_MEMO;
	if (read_word(w, slot, w->sp, &ra) || !(ra & FRAME_PC))
		return 0;
	w->n = 1;
	w->pc = ra & FRAME_PC;
	w->sp += sizeof(u64);
	return 1;
}

#else

static __always_inline int leave_vsyscall(u32 slot)
{
	return 0;
}

#endif

#endif
