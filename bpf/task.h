/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The current task: its numbers in the agent's PID namespace, and its user registers. */
#ifndef PERF_AGENT_TASK_H
#define PERF_AGENT_TASK_H

#include "maps.h"

#define PID_OUTSIDE 0
#define MAX_NAMESPACE_LEVELS 32 /* MAX_PID_NS_LEVEL of include/linux/pid_namespace.h */

struct user_registers {
	u64 pc;
	u64 sp;
	u64 fp;
	u64 at; /* kernel address of all of them */
};

/* The number of a task in the agent's PID namespace, PID_OUTSIDE if it has none there. */
static __always_inline u32 number_in_namespace(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level), i;

	for (i = 0; i <= MAX_NAMESPACE_LEVELS; i++) {
		struct upid upid;

		if (i > level)
			break;
		if (bpf_core_read(&upid, sizeof(upid), &pid->numbers[i]))
			break;
		if (BPF_CORE_READ(upid.ns, ns.inum) == pid_namespace)
			return upid.nr;
	}
	return PID_OUTSIDE;
}

/* Process and thread number of the current task as the agent sees them. False: the idle task. */
static __always_inline bool current_numbers(u32 *pid, u32 *tid)
{
	u64 numbers = bpf_get_current_pid_tgid();

	*pid = numbers >> 32;
	*tid = (u32)numbers;
	if (!*tid)
		return false;
	if (pid_namespace) {
		struct task_struct *task = (void *)bpf_get_current_task();

		*tid = number_in_namespace(task);
		*pid = number_in_namespace(BPF_CORE_READ(task, group_leader));
	}
	return true;
}

/*
 * The user registers of a task as saved at its last entry into the kernel; of the current task, that is where this
 * program runs, whether an interrupt came in user code or in a system call. False: see without_registers.
 */
static __always_inline bool registers_of(struct task_struct *task, struct user_registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (task->flags & PF_KTHREAD || !task->mm)
		return false;
	user->pc = REGS_PC(regs);
	user->sp = REGS_SP(regs);
	user->fp = REGS_FP(regs);
	user->at = (u64)regs;
	return user_code(user->pc, REGS_MODE(regs));
}

/* The same before bpf_task_pt_regs. */
static __always_inline bool registers_probed(struct task_struct *task, struct user_registers *user)
{
	struct pt_regs *regs;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD || !BPF_CORE_READ(task, mm))
		return false;
	user->at = (u64)BPF_CORE_READ(task, stack) + KERNEL_STACK_SIZE - REGS_BYTES;
	regs = (void *)user->at;
	user->pc = REGS_PC_PROBED(regs);
	user->sp = REGS_SP_PROBED(regs);
	user->fp = REGS_FP_PROBED(regs);
	return user_code(user->pc, REGS_MODE_PROBED(regs));
}

/* By the one of both that works on this kernel. */
static __always_inline bool registers_of_task(struct task_struct *task, struct user_registers *user)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return registers_of(task, user);
	return registers_probed(task, user);
}

static __always_inline bool current_registers(struct user_registers *user)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return registers_of(bpf_get_current_task_btf(), user);
	return registers_probed((void *)bpf_get_current_task(), user);
}

/* Why a task has no user memory; WALK_ENDS if it has. */
static __always_inline u32 without_memory(struct task_struct *task)
{
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return WALK_NONE;
	return BPF_CORE_READ(task, mm) ? WALK_ENDS : WALK_EXITING;
}

/*
 * Why a task has no user registers to walk from. A thread that the kernel has made inside of a process, as for
 * io_uring, has no user stack: its registers are 0 (copy_thread, arch/x86/kernel/process.c, since 5.12; before, it was
 * a kernel thread). The flags of such threads differ between kernels.
 */
static __always_inline u32 without_registers(struct task_struct *task, struct user_registers *user)
{
	u32 end = without_memory(task);

	if (end != WALK_ENDS)
		return end;
	if (!user->pc && !user->sp)
		return WALK_NONE;
	/* An address of 64-bit code in a thread that was refused. */
	return user_code(user->pc, USER64_MODE) ? WALK_CODE_32_BIT : WALK_NO_REGISTERS;
}

/* Whether the current task is in a call of exec, which gives back the memory of the old program on its way. */
static __noinline u64 in_exec(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/*
 * Whether the current task is on its way out. If it is the last of its process, the end of the process has been told
 * already: since 6.16 before the memory is given back.
 */
static __always_inline bool is_exiting(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_EXITING;
}

/* Whether the current task is a kernel thread, or a thread that has given back its memory on its way out. */
static __always_inline bool has_no_memory(void)
{
	return without_memory((void *)bpf_get_current_task()) != WALK_ENDS;
}

#endif
