/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the kernel knows of the uprobes of the current thread; see uprobes.h. */
#ifndef PERF_AGENT_UPROBE_TASK_H
#define PERF_AGENT_UPROBE_TASK_H

#include "uprobes.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/uprobes.h: a probed function that has not returned yet. */
struct return_instance {
	unsigned long stack; /* where its return address was */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	unsigned long vaddr;	 /* of the instruction whose copy runs */
	unsigned long xol_vaddr; /* of the copy */
	struct return_instance *return_instances;
};

/* kernel/events/uprobes.c: the page. */
struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct___with_uprobes {
	struct uprobes_state uprobes_state;
};

struct task_struct___with_uprobes {
	struct mm_struct___with_uprobes *mm;
	struct uprobe_task *utask;
};

#pragma clang attribute pop

/* MAX_URETPROBE_DEPTH of include/linux/uprobes.h. */
#define MAX_PENDING_RETURNS 64
/* No instruction is longer. */
#define LONGEST_INSTRUCTION 16

/*
 * Where the probed function returns to that had its return address at `at`, which has a probe in its place; 0: no probe
 * knows.
 */
static __always_inline u64 pending_return(struct uprobe_task *utask, u64 at)
{
	struct return_instance *pending = BPF_CORE_READ(utask, return_instances);
	u32 i;

	for (i = 0; i < MAX_PENDING_RETURNS && pending; i++) {
		if (BPF_CORE_READ(pending, stack) == at)
			return BPF_CORE_READ(pending, orig_ret_vaddr);
		pending = BPF_CORE_READ(pending, next);
	}
	return 0;
}

/*
 * The start of the page, to which probed functions return: a breakpoint, or on x86-64 since 6.11 `push %rax; push %rcx;
 * push %r11; mov $NUMBER, %rax; syscall; pop %r11; pop %rcx; ret` (arch/x86/kernel/uprobes.c). The call of the kernel
 * ends the pending return and puts its address in the place of rax.
 */
#define RETURN_CODE_BYTES 32
#define PUSH_RCX 0x51
#define PUSH_R11 0x5341
#define POP_R11 0x5b41
#define POP_RCX 0x59
#define RET 0xc3
#define BREAKPOINT 0xcc
#define PUSH_RAX 0x50

/* For a thread that is in this code: where it returns to, and the stack pointer there. */
static __always_inline u64 leave_return_code(struct uprobe_task *utask, u64 pc, u64 *sp)
{
	u64 to = 0, pushed = 24;
	u16 code = 0;
	u8 first;

	if (read_user(&code, sizeof(code), pc))
		return 0;
	first = code & 0xff;
	if (first == PUSH_RAX || first == BREAKPOINT)
		pushed = 0;
	else if (first == PUSH_RCX || first == RET)
		pushed = 8;
	else if (code == PUSH_R11 || first == POP_RCX)
		pushed = 16;
	*sp += pushed;
	to = pending_return(utask, *sp - sizeof(u64));
	if (!to && (code == POP_R11 || first == POP_RCX || first == RET))
		read_user(&to, sizeof(to), *sp - sizeof(u64));
	return to;
}

/* The address that a return probe puts in the place of a return address; 0: the current thread's memory has none. */
static __always_inline u64 return_page(void)
{
	struct task_struct___with_uprobes *task = (void *)bpf_get_current_task();

	if (!bpf_core_field_exists(task->utask))
		return 0;
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

static __always_inline u64 address_in_program(u64 pc, u64 *sp)
{
	struct task_struct___with_uprobes *task = (void *)bpf_get_current_task();
	struct uprobe_task *utask;
	u64 page, offset;

	if (!bpf_core_field_exists(task->utask))
		return 0;
	utask = BPF_CORE_READ(task, utask);
	page = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	offset = (pc & FRAME_PC) - page;
	if (!utask || !page || offset >= SMALLEST_PAGE)
		return 0;
	if (!(pc & FRAME_EXACT))
		return offset ? 0 : pending_return(utask, *sp - sizeof(u64));
	if (offset < RETURN_CODE_BYTES)
		return leave_return_code(utask, pc & FRAME_PC, sp);
	offset = (pc & FRAME_PC) - BPF_CORE_READ(utask, xol_vaddr);
	return offset <= LONGEST_INSTRUCTION ? BPF_CORE_READ(utask, vaddr) + offset : 0;
}

#endif
