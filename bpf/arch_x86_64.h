/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Everything that depends on the processor: the saved user registers and where they lie. */
#ifndef PERF_AGENT_ARCH_H
#define PERF_AGENT_ARCH_H

#include "abi/frame.h"
#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* arch/x86/include/asm/ptrace.h */
struct pt_regs {
	unsigned long r15, r14, r13, r12;
	unsigned long bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
	unsigned long ss;
};

/* arch/x86/include/asm/processor.h */
struct thread_struct {
	unsigned long fsbase;
};

struct task_struct___x86 {
	struct thread_struct thread;
};

/* arch/x86/include/asm/mmu.h */
struct mm_struct___x86 {
	struct {
		u64 ctx_id;
	} context;
};

#pragma clang attribute pop

/* The number of a memory, which no other memory ever gets. */
#define MEMORY_NUMBER(mm) BPF_CORE_READ((struct mm_struct___x86 *)(mm), context.ctx_id)

/* As the thread has set it by system calls, and as it was at its last switch. */
#define TASK_THREAD_POINTER(task) BPF_CORE_READ((struct task_struct___x86 *)(task), thread.fsbase)

#define REGS_PC(regs) ((regs)->ip)
#define REGS_SP(regs) ((regs)->sp)
#define REGS_FP(regs) ((regs)->bp)
#define REGS_MODE(regs) ((regs)->cs)
#define REGS_PC_PROBED(regs) BPF_CORE_READ(regs, ip)
#define REGS_SP_PROBED(regs) BPF_CORE_READ(regs, sp)
#define REGS_FP_PROBED(regs) BPF_CORE_READ(regs, bp)
#define REGS_MODE_PROBED(regs) BPF_CORE_READ(regs, cs)
#define REGS_BYTES sizeof(struct pt_regs)

/* Arguments at the entry of a function, its result, and what its return takes off the stack (x86-64 psABI, 3.2). */
#define REGS_ARG1(regs) ((regs)->di)
#define REGS_ARG2(regs) ((regs)->si)
#define REGS_ARG3(regs) ((regs)->dx)
#define REGS_RESULT(regs) ((regs)->ax)
/* In Go since 1.17 (ABIInternal): the current goroutine, and the first argument at the entry of a function. */
#define REGS_GOROUTINE(regs) ((regs)->r14)
#define REGS_GO_ARG1(regs) ((regs)->ax)
#define RETURN_POPS 8

/*
 * The kernel was entered by an interrupt or a fault, not by a call: the entry code (arch/x86/entry/entry_64.S) leaves
 * -1 for the number of the call. Interrupts that came in user mode run on the task's own stack.
 */
#define REGS_ENTRY_PROBED(regs) ((s64)BPF_CORE_READ(regs, orig_ax))
#define ENTRY_BY_INTERRUPT -1

/* A system call of 64-bit code: its number, and its arguments, which stay as they are until it returns. */
#define CALL_FUTEX 202
#define REGS_CALL_PROBED(regs) ((s64)BPF_CORE_READ(regs, orig_ax))
#define REGS_ARG1_PROBED(regs) BPF_CORE_READ(regs, di)
#define REGS_ARG2_PROBED(regs) BPF_CORE_READ(regs, si)
#define REGS_ARG3_PROBED(regs) BPF_CORE_READ(regs, dx)
#define REGS_ARG4_PROBED(regs) BPF_CORE_READ(regs, r10) /* of a system call */
#define REGS_ARG5_PROBED(regs) BPF_CORE_READ(regs, r8)

#define USER64_MODE 0x33 /* __USER_CS */
#define USER32_CS 0x23	 /* __USER32_CS, arch/x86/include/asm/segment.h: 32-bit code, which has other tables */

/* THREAD_SIZE of arch/x86/include/asm/page_64_types.h without KASAN. Before 5.15 (no bpf_task_pt_regs) the registers
 * lie at the end of such a stack, without padding above (that came with FRED, 6.9). Interrupts in kernel code have
 * another. */
#define KERNEL_STACK_SIZE (4096UL << 2)

static __always_inline bool user_code(u64 pc, u64 mode)
{
	return ((s64)pc > 0 || pc - VSYSCALL_PAGE < VSYSCALL_BYTES) && mode != USER32_CS;
}

#define STACK_POINTER 7 /* its DWARF number */

/* DWARF register number -> place in pt_regs, in words (x86-64 psABI, figure 3.36). */
static __always_inline u32 saved_register_place(u32 dwarf_number)
{
	switch (dwarf_number) {
	case 0:
		return 10; /* rax */
	case 1:
		return 12; /* rdx */
	case 2:
		return 11; /* rcx */
	case 3:
		return 5; /* rbx */
	case 4:
		return 13; /* rsi */
	case 5:
		return 14; /* rdi */
	case 6:
		return 4; /* rbp */
	case 7:
		return 19; /* rsp */
	case 8:
		return 9;
	case 9:
		return 8;
	case 10:
		return 7;
	case 11:
		return 6;
	case 12:
		return 3;
	case 13:
		return 2;
	case 14:
		return 1;
	case 15:
		return 0;
	}
	return ~0U;
}

#endif
