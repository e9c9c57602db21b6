/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Everything that depends on the processor: the saved user registers and where they lie. */
#ifndef PERF_AGENT_ARCH_H
#define PERF_AGENT_ARCH_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* arch/arm64/include/asm/ptrace.h, as far as it is the same in all kernels. */
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
};

#pragma clang attribute pop

#define REGS_PC(regs) ((regs)->pc)
#define REGS_SP(regs) ((regs)->sp)
#define REGS_FP(regs) ((regs)->regs[29])
#define REGS_MODE(regs) ((regs)->pstate)
/* The memory of a process that has ended may leave this number to another one. */
#define MEMORY_NUMBER(mm) ((u64)(mm))
/* No rule needs it. */
#define TASK_THREAD_POINTER(task) ((void)(task), 0)

#define REGS_PC_PROBED(regs) BPF_CORE_READ(regs, pc)
#define REGS_SP_PROBED(regs) BPF_CORE_READ(regs, sp)
#define REGS_FP_PROBED(regs) BPF_CORE_READ(regs, regs[29])
#define REGS_MODE_PROBED(regs) BPF_CORE_READ(regs, pstate)
/* What follows the registers differs from kernel to kernel. */
#define REGS_BYTES bpf_core_type_size(struct pt_regs)

/* Arguments at the entry of a function, its result, and what its return takes off the stack (AAPCS64, 6). */
#define REGS_ARG1(regs) ((regs)->regs[0])
#define REGS_ARG2(regs) ((regs)->regs[1])
#define REGS_ARG3(regs) ((regs)->regs[2])
#define REGS_RESULT(regs) ((regs)->regs[0])
/* In Go since 1.18 (ABIInternal): the current goroutine, and the first argument at the entry of a function. */
#define REGS_GOROUTINE(regs) ((regs)->regs[28])
#define REGS_GO_ARG1(regs) ((regs)->regs[0])
#define RETURN_POPS 0

/*
 * The kernel was entered by an interrupt or a fault, not by a call: the entry code (arch/arm64/kernel/entry.S) leaves
 * NO_SYSCALL for the number of the call.
 */
#define REGS_ENTRY_PROBED(regs) ((s64)BPF_CORE_READ(regs, syscallno))
#define ENTRY_BY_INTERRUPT -1

/* A system call of 64-bit code: its number, and its arguments, which stay as they are until it returns. */
#define CALL_FUTEX 98
#define REGS_CALL_PROBED(regs) ((s64)BPF_CORE_READ(regs, syscallno))
#define REGS_ARG1_PROBED(regs) BPF_CORE_READ(regs, orig_x0)
#define REGS_ARG2_PROBED(regs) BPF_CORE_READ(regs, regs[1])
#define REGS_ARG3_PROBED(regs) BPF_CORE_READ(regs, regs[2])
#define REGS_ARG4_PROBED(regs) BPF_CORE_READ(regs, regs[3])
#define REGS_ARG5_PROBED(regs) BPF_CORE_READ(regs, regs[4])

/* PSR_MODE_MASK and PSR_MODE32_BIT (arch/arm64/include/uapi/asm/ptrace.h): 0 is 64-bit user code. */
#define PSTATE_MODE 0x1f
#define USER64_MODE 0

/* THREAD_SIZE of arch/arm64/include/asm/memory.h with pages of 4 KiB, without KASAN. Before 5.15 (no
 * bpf_task_pt_regs) the registers lie at the end of such a stack. Interrupts have another. */
#define KERNEL_STACK_SIZE (1UL << 14)

static __always_inline bool user_code(u64 pc, u64 mode)
{
	return pc && !(pc >> 55) && !(mode & PSTATE_MODE);
}

#define STACK_POINTER 31 /* its DWARF number */

/* DWARF register number -> place in pt_regs, in words (AADWARF64, table 1). */
static __always_inline u32 saved_register_place(u32 dwarf_number)
{
	return dwarf_number <= STACK_POINTER ? dwarf_number : ~0U;
}

#endif
