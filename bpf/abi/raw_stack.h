/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Stacks that are sent unwalked: registers and bytes. */
#ifndef PERF_AGENT_ABI_RAW_STACK_H
#define PERF_AGENT_ABI_RAW_STACK_H

#include "frame.h"

#define RAW_STACK_BYTES (60 * 1024)
/* Functions may keep registers below their stack pointer, and epilogues leave popped values there (psABI). */
#define RED_ZONE 128
/* After this many unreadable pages in a row the stack is considered to have ended. */
#define RAW_STACK_END 4

/* A thread is taken to begin at most this far above its stack pointer. */
#define RAW_STACK_REACH (64 * 1024 * 1024)

/* The user registers of an unwalked stack, by DWARF number, and the pc. */
struct raw_registers {
	unsigned long long at[DWARF_REGISTERS];
	unsigned long long pc;
};

/*
 * Precedes bytes of the user stack. Those of MESSAGE_RAW begin with the red zone and end where the stack was no longer
 * readable. Of a stack that is longer, MESSAGE_STACK_PART has the bytes where the thread began.
 */
struct raw_stack {
	/* Bit n: the nth page of the copy was not readable, because the thread never touched it. */
	unsigned long long holes;
};

_Static_assert(sizeof(struct raw_registers) == (DWARF_REGISTERS + 1) * 8, "registers");

#endif
