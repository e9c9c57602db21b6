/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a thread does with a futex, from the registers that the kernel saved when the thread entered it: they stay as
 * they are while the thread is in the call. So a wait needs no probe of its own.
 */
#ifndef PERF_AGENT_FUTEX_H
#define PERF_AGENT_FUTEX_H

#include "task.h"

/* include/uapi/linux/futex.h */
#define FUTEX_COMMAND 0x7f /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */
#define FUTEX_PRIVATE 0x80
#define FUTEX_WAITERS 0x80000000
#define FUTEX_TID 0x3fffffff

enum futex_command {
	FUTEX_WAIT = 0,
	FUTEX_WAKE = 1,
	FUTEX_REQUEUE = 3,
	FUTEX_CMP_REQUEUE = 4,
	FUTEX_WAKE_OP = 5,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAIT_REQUEUE_PI = 11,
	FUTEX_CMP_REQUEUE_PI = 12,
	FUTEX_LOCK_PI2 = 13,
};

struct futex_call {
	u64 address;
	u64 second; /* the other futex of a call that has two; else 0 */
	u32 operation;
	u32 value; /* the third argument: of a wait, what the word was */
};

/* Where the kernel saved the user registers of a task. */
static __always_inline struct pt_regs *saved_registers(struct task_struct *task)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(task);
	return (void *)((u64)BPF_CORE_READ(task, stack) + KERNEL_STACK_SIZE - REGS_BYTES);
}

static __always_inline struct pt_regs *current_saved_registers(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return (void *)((u64)BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), stack) + KERNEL_STACK_SIZE -
			REGS_BYTES);
}

static __always_inline u32 futex_command(struct futex_call *call)
{
	return call->operation & FUTEX_COMMAND;
}

static __always_inline bool has_two_futexes(u32 command)
{
	return command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE || command == FUTEX_WAKE_OP ||
	       command == FUTEX_CMP_REQUEUE_PI;
}

/* Calls that do one thing with a futex: since Linux 6.7, and 5.16. All processors have them under these numbers. */
#define CALL_FUTEX_WAITV 449
#define CALL_FUTEX_WAKE 454
#define CALL_FUTEX_WAIT 455

/* What futex_waitv gets for each futex. */
struct futex_waiter {
	u64 value;
	u64 address;
	u32 flags;
	u32 reserved;
};

/*
 * The same of a call with a number of its own, as a call of futex. Of several futexes that a thread waits for at once
 * it is the first one, which is in its memory: `is_own` tells that this can be read.
 */
static __noinline bool newer_futex_call(struct pt_regs *regs, struct futex_call *call, u64 number, bool is_own)
{
	struct futex_waiter first = {};

	call->operation = FUTEX_WAIT_BITSET;
	if (number == CALL_FUTEX_WAITV) {
		if (!is_own || read_user(&first, sizeof(first), REGS_ARG1_PROBED(regs)))
			return false;
		call->address = first.address;
		call->value = (u32)first.value;
		call->operation |= first.flags & FUTEX_PRIVATE;
		return true;
	}
	call->address = REGS_ARG1_PROBED(regs);
	if (number == CALL_FUTEX_WAKE)
		call->operation = FUTEX_WAKE;
	else
		call->value = (u32)REGS_ARG2_PROBED(regs);
	call->operation |= (u32)REGS_ARG4_PROBED(regs) & FUTEX_PRIVATE;
	return true;
}

/*
 * The futex call that a thread is in. False: it is in none. 32-bit code has other calls under this number. `is_own`:
 * the thread is the current one, or one of its process.
 */
static __always_inline bool futex_call_in(struct pt_regs *regs, struct futex_call *call, bool is_own)
{
	s64 number = REGS_CALL_PROBED(regs);

	if (number != CALL_FUTEX && number != CALL_FUTEX_WAIT && number != CALL_FUTEX_WAKE &&
	    number != CALL_FUTEX_WAITV)
		return false;
	if (!user_code(REGS_PC_PROBED(regs), REGS_MODE_PROBED(regs)))
		return false;
	if (number != CALL_FUTEX)
		return newer_futex_call(regs, call, number, is_own);
	call->address = REGS_ARG1_PROBED(regs);
	call->operation = (u32)REGS_ARG2_PROBED(regs);
	call->value = (u32)REGS_ARG3_PROBED(regs);
	call->second = has_two_futexes(futex_command(call)) ? REGS_ARG5_PROBED(regs) : 0;
	return true;
}

/* How a thread in this call waits; LOCK_NONE if it does not. */
static __always_inline u32 lock_kind_of(struct futex_call *call)
{
	switch (futex_command(call)) {
	case FUTEX_WAIT:
		return LOCK_WAIT;
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
		return LOCK_BITSET;
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return LOCK_PI;
	}
	return LOCK_NONE;
}

/* The kind with the mark of a lock that processes may share. */
static __always_inline u32 marked_kind_of(struct futex_call *call)
{
	u32 kind = lock_kind_of(call);

	return kind == LOCK_NONE || call->operation & FUTEX_PRIVATE ? kind : kind | LOCK_SHARED;
}

/* Marks the address of a futex that processes may share. No address of a program has this bit. */
#define SHARED_FUTEX (1ULL << 63)
/* A place of shared memory has these bits of its address in common in all processes. */
#define OFFSET_IN_PAGE 0xfff

/* The futex that a thread waits for, or is about to wait for; 0: none, or it cannot be read, as the current thread is
 * of another process. */
static __always_inline u64 futex_waited_for(struct task_struct *task)
{
	struct futex_call call = {};

	if (!futex_call_in(saved_registers(task), &call, true) || lock_kind_of(&call) == LOCK_NONE)
		return 0;
	return call.operation & FUTEX_PRIVATE ? call.address : call.address | SHARED_FUTEX;
}

/*
 * Whether the current thread is in a call that may wake waiters of a futex, as futex_waited_for has it. The thread is
 * just waking one: a shared futex may have another address here.
 */
static __always_inline bool is_in_futex(u64 futex)
{
	u64 address = futex & ~SHARED_FUTEX;
	struct futex_call call = {};

	if (!futex_call_in(current_saved_registers(), &call, true))
		return false;
	if (call.address == address || call.second == address)
		return true;
	if (!(futex & SHARED_FUTEX) || call.operation & FUTEX_PRIVATE)
		return false;
	return !((call.address ^ address) & OFFSET_IN_PAGE) ||
	       (call.second && !((call.second ^ address) & OFFSET_IN_PAGE));
}

#endif
