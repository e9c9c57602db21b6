/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Stacks that are sent unwalked: registers and bytes. */
#ifndef PERF_AGENT_ABI_RAW_STACK_H
#define PERF_AGENT_ABI_RAW_STACK_H

#include "frame.h"

#define RAW_STACK_BYTES (60 * 1024)
/* Below its stack pointer a function may keep registers, and epilogues leave there what they have popped (psABI). */
#define RED_ZONE 128
/* So many unreadable pages in a row are taken for the end of the stack. */
#define RAW_STACK_END 4

/* The user registers of a stack that crosses as it is, by DWARF number, and the pc. */
struct raw_registers {
	unsigned long long at[DWARF_REGISTERS];
	unsigned long long pc;
};

/* In front of the bytes of the user stack from its red zone on, as far as it was readable. */
struct raw_stack {
	/* Bit n: the nth piece of the stack, each ending with a page, was not readable: a page never touched. */
	unsigned long long holes;
};

_Static_assert(sizeof(struct raw_registers) == (DWARF_REGISTERS + 1) * 8, "registers");

#endif
