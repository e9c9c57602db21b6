/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The value of an occurrence: a field of a tracepoint, or an argument at a probe. */
#ifndef PERF_AGENT_VALUE_H
#define PERF_AGENT_VALUE_H

#include "maps.h"

static __always_inline bool has_value(void)
{
	return value_plan.base != VALUE_NONE;
}

/* Registers and the records of tracepoints are smaller. */
#define VALUE_REACH 0xffff

static __always_inline long load_step(const volatile struct value_plan *plan, void *to, u32 size, u64 from)
{
	if (plan->in_kernel)
		return bpf_probe_read_kernel(to, size, (const void *)from);
	return read_user(to, size, from);
}

/* Loads the word of a value, by its plan. Not 0: it cannot be read. */
static __always_inline long load_by(const volatile struct value_plan *plan, void *ctx, u64 *word)
{
	u32 size = plan->size, steps = plan->steps, i;

	if (size > sizeof(*word))
		return 1; /* unreachable: user space makes no such plan */
	if (plan->base == VALUE_RECORD)
		return bpf_probe_read_kernel(word, size, ctx + (plan->at & VALUE_REACH));
	if (plan->base == VALUE_CONSTANT) {
		*word = plan->offsets[0];
		return 0;
	}
	if (bpf_probe_read_kernel(word, sizeof(*word), ctx + (plan->at & VALUE_REACH)))
		return 1;
	for (i = 0; i < MAX_VALUE_STEPS; i++) {
		u64 from = *word + plan->offsets[i];

		if (i >= steps)
			break;
		*word = 0;
		if (load_step(plan, word, i + 1 == steps ? size : sizeof(*word), from))
			return 1;
	}
	return 0;
}

/* The bits of a loaded word that are the value. */
static __always_inline u64 bits_of(const volatile struct value_plan *plan, u64 word)
{
	word <<= plan->shift_left & 63;
	return plan->has_sign ? (u64)((s64)word >> (plan->shift_right & 63)) : word >> (plan->shift_right & 63);
}

/*
 * The value of this occurrence; 0 if it has none. A value that cannot be read, and one that is negative or too large
 * for a sum, is counted: the occurrence is recorded without it. `ctx`: the record of a tracepoint, or the registers of
 * a probe. Not inlined, because few events have a value.
 */
static __noinline int take_value(void *ctx, struct counters *c, u64 *value)
{
	u64 word = 0;

	if (load_by(&value_plan, ctx, &word)) {
		count(c, COUNT_VALUES_UNREADABLE, 1);
		return 0;
	}
	word = bits_of(&value_plan, word);
	if ((s64)word < 0) {
		count(c, COUNT_VALUES_NEGATIVE, 1);
		return 0;
	}
	*value = word;
	return 0;
}

#endif
