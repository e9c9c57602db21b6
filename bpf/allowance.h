/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How many bytes of unwalked stacks may be sent: by each process and by the whole machine. An allowance is used up by
 * bytes and comes back with time. It is kept as the time until which it would be used up if all bytes had been sent at
 * the lasting rate; so it needs no timer, and an unused one is a time in the past. A build whose tables are all still
 * to be made stays within these bounds (docs/benchmarks.md).
 */
#ifndef PERF_AGENT_ALLOWANCE_H
#define PERF_AGENT_ALLOWANCE_H

#include "aggregate.h"

/* Nanoseconds that a byte uses up, as a shift, and the bytes that may be sent at once. */
#define MACHINE_SHIFT 5 /* 30 MiB a second */
#define MACHINE_BYTES (256ULL << 20)
/* A process that waits for tables: that ends when they are made. */
#define WAITING_SHIFT 10 /* 0.9 MiB a second */
#define WAITING_BYTES (96ULL << 20)
/* A process whose code lies in no known mapping, or has rules that the kernel does not evaluate: that may never end. */
#define LASTING_SHIFT 12 /* 0.24 MiB a second */
#define LASTING_BYTES (8ULL << 20)

static __always_inline volatile u64 *allowance_of(u32 pid, u32 end)
{
	u32 first = end == WALK_TABLE_NOT_READY ? 1 : 1 + ALLOWANCES;

	return &allowances[first + (pid & (ALLOWANCES - 1))];
}

static __always_inline bool is_used_up(volatile u64 *until, u64 now, u64 at_once, u32 shift)
{
	u64 used = *until;

	return used > now && used - now >= at_once << shift;
}

/* Not atomic: the bound need not be exact. */
static __always_inline void use_up(volatile u64 *until, u64 now, u64 bytes, u32 shift)
{
	u64 used = *until;

	*until = (used > now ? used : now) + (bytes << shift);
}

/*
 * Whether the process's own allowance bounds its stacks. Samples of code whose rules the kernel does not evaluate are
 * all walked in user space, as far as the machine's allowance goes: their number is that of the samples, not of what
 * the process does. Such code may be most of a program, as all functions are that the loader audits (LD_AUDIT).
 */
static __always_inline bool is_bounded_by_process(u32 end, bool sampled)
{
	return !sampled || end != WALK_UNSUPPORTED_RULE;
}

/* The counter of the allowance that lets a process send no further stack now; 0: it may. */
static __always_inline u32 refused_by_allowance(u32 pid, u32 end, bool sampled, u64 now)
{
	bool waits = end == WALK_TABLE_NOT_READY;

	if (is_bounded_by_process(end, sampled) &&
	    is_used_up(allowance_of(pid, end), now, waits ? WAITING_BYTES : LASTING_BYTES,
		       waits ? WAITING_SHIFT : LASTING_SHIFT))
		return COUNT_UNSENT_OF_PROCESS;
	return is_used_up(&allowances[0], now, MACHINE_BYTES, MACHINE_SHIFT) ? COUNT_UNSENT_OF_MACHINE : 0;
}

static __always_inline void use_allowance(u32 pid, u32 end, bool sampled, u64 now, u64 bytes)
{
	if (is_bounded_by_process(end, sampled))
		use_up(allowance_of(pid, end), now, bytes, end == WALK_TABLE_NOT_READY ? WAITING_SHIFT : LASTING_SHIFT);
	use_up(&allowances[0], now, bytes, MACHINE_SHIFT);
}

#endif
