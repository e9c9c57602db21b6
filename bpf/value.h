/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The value of an occurrence: a field of a tracepoint, or an argument at a probe. */
#ifndef PERF_AGENT_VALUE_H
#define PERF_AGENT_VALUE_H

#include "maps.h"

static __always_inline bool has_value(void)
{
	return value_plan.base != VALUE_NONE;
}

static __always_inline long load_step(void *to, u32 size, u64 from)
{
	if (value_plan.in_kernel)
		return bpf_probe_read_kernel(to, size, (const void *)from);
	return read_user(to, size, from);
}

/* Loads the word of the value, by the plan. Not 0: it cannot be read. */
static __always_inline long load_value(void *ctx, u64 *word)
{
	u32 size = value_plan.size, i;

	if (size > sizeof(*word))
		return 1; /* unreachable: user space makes no such plan */
	if (value_plan.base == VALUE_RECORD)
		return bpf_probe_read_kernel(word, size, ctx + value_plan.at);
	if (value_plan.base == VALUE_CONSTANT) {
		*word = value_plan.offsets[0];
		return 0;
	}
	if (bpf_probe_read_kernel(word, sizeof(*word), ctx + value_plan.at))
		return 1;
	for (i = 0; i < MAX_VALUE_STEPS; i++) {
		u64 from = *word + value_plan.offsets[i];

		if (i >= value_plan.steps)
			break;
		*word = 0;
		if (load_step(word, i + 1 == value_plan.steps ? size : sizeof(*word), from))
			return 1;
	}
	return 0;
}

/*
 * The value of this occurrence; 0 if it has none. A value that cannot be read, and one that is negative or too large
 * for a sum, is counted: the occurrence is recorded without it. `ctx`: the record of a tracepoint, or the registers of
 * a probe. Not inlined, because few events have a value.
 */
static __noinline int take_value(void *ctx, struct counters *c, u64 *value)
{
	u64 word = 0;

	if (load_value(ctx, &word)) {
		count(c, COUNT_VALUES_UNREADABLE, 1);
		return 0;
	}
	word <<= value_plan.shift_left;
	word = value_plan.has_sign ? (u64)((s64)word >> value_plan.shift_right) : word >> value_plan.shift_right;
	if ((s64)word < 0) {
		count(c, COUNT_VALUES_NEGATIVE, 1);
		return 0;
	}
	*value = word;
	return 0;
}

#endif
