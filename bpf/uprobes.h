/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Addresses in the page of uprobes ([uprobes] in /proc/PID/maps). A probe at the return of a function replaces the
 * return address by the start of this page. An instruction that the kernel does not emulate runs as a copy in it. The
 * page is in no table of mappings, so a walk that meets it finds no mapping: few walks come here.
 */
#ifndef PERF_AGENT_UPROBES_H
#define PERF_AGENT_UPROBES_H

#include "walk_state.h"

/*
 * The address in the program for `pc`, which may have FRAME_EXACT, in the page of uprobes of the walked thread; 0: it
 * is not there. `sp` is the stack pointer of the frame, before and after.
 */
static u64 address_in_program(u64 pc, u64 *sp);

/* Not 0: the frame was in the page of uprobes, and is in the program now. */
__noinline int leave_uprobes(u32 slot)
{
	struct walk *w = walk_at(slot);
	u64 pc, sp;

	if (!w)
		return 0;
	sp = w->sp;
	pc = address_in_program(w->pc & FRAME_PLACE, &sp);
	if (!pc)
		return 0;
	w->sp = sp;
	w->pc = (pc & FRAME_PC) | (w->pc & FRAME_EXACT);
	return 1;
}

#endif
