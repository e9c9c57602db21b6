/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How many bytes of unwalked stacks may be sent: by each process and by the whole machine. An allowance is used up by
 * bytes and comes back with time. It is kept as the time until which it would be used up if all bytes had been sent at
 * the lasting rate; so it needs no timer, and an unused one is a time in the past. A build whose tables are all still
 * to be made stays within these bounds (docs/benchmarks.md). The includer has `allowances`.
 */
#ifndef PERF_AGENT_ALLOWANCE_H
#define PERF_AGENT_ALLOWANCE_H

#include "abi/counters.h"

/* Nanoseconds that a byte uses up, as a shift, and the bytes that may be sent at once. */
#define MACHINE_SHIFT 5 /* 30 MiB a second */
#define MACHINE_BYTES (256ULL << 20)
/* A process that waits for tables: that ends when they are made. */
#define WAITING_SHIFT 10 /* 0.9 MiB a second */
#define WAITING_BYTES (96ULL << 20)
/* A process whose code lies in no known mapping, or has rules that the kernel does not evaluate: that may never end. */
#define LASTING_SHIFT 12 /* 0.24 MiB a second */
#define LASTING_BYTES (8ULL << 20)
/*
 * Its samples below such rules. The sampling rate bounds their number, not the work of the process. Such code may be
 * most of a program: all functions that the loader audits are (LD_AUDIT). Half of the machine's allowance is left to
 * others.
 */
#define SAMPLED_SHIFT 6 /* 15 MiB a second */
#define SAMPLED_BYTES (MACHINE_BYTES / 2)

/* Bounds the stacks of a process that end in the same way. */
struct allowance {
	volatile u64 *until;
	u64 at_once;
	u32 shift;
};

static __always_inline struct allowance allowance_of(u32 pid, u32 end, bool sampled)
{
	u32 slot = pid & (ALLOWANCES - 1);

	if (end == WALK_TABLE_NOT_READY)
		return (struct allowance){&allowances[1 + slot], WAITING_BYTES, WAITING_SHIFT};
	if (end == WALK_UNSUPPORTED_RULE && sampled)
		return (struct allowance){&allowances[1 + ALLOWANCES + slot], SAMPLED_BYTES, SAMPLED_SHIFT};
	return (struct allowance){&allowances[1 + 2 * ALLOWANCES + slot], LASTING_BYTES, LASTING_SHIFT};
}

static __always_inline struct allowance allowance_of_machine(void)
{
	return (struct allowance){&allowances[0], MACHINE_BYTES, MACHINE_SHIFT};
}

static __always_inline bool is_used_up(struct allowance of, u64 now)
{
	u64 used = *of.until;

	return used > now && used - now >= of.at_once << of.shift;
}

/* Not atomic: the bound need not be exact. */
static __always_inline void use_up(struct allowance of, u64 now, u64 bytes)
{
	u64 used = *of.until;

	*of.until = (used > now ? used : now) + (bytes << of.shift);
}

/* The counter of the allowance that lets a process send no further stack now; 0: it may. */
static __always_inline u32 refused_by_allowance(u32 pid, u32 end, bool sampled, u64 now)
{
	if (is_used_up(allowance_of(pid, end, sampled), now))
		return COUNT_UNSENT_OF_PROCESS;
	return is_used_up(allowance_of_machine(), now) ? COUNT_UNSENT_OF_MACHINE : 0;
}

static __always_inline void use_allowance(u32 pid, u32 end, bool sampled, u64 now, u64 bytes)
{
	use_up(allowance_of(pid, end, sampled), now, bytes);
	use_up(allowance_of_machine(), now, bytes);
}

#endif
