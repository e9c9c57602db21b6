/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Values by the schema of an event: how those of one more occurrence are added to those of a key. Schema and slot are
 * constants wherever this is called, so what is left of a sum is one addition. crates/replay compiles it natively.
 */
#ifndef PERF_AGENT_VALUES_H
#define PERF_AGENT_VALUES_H

#include "abi.h"

/* Without an atomic maximum (BPF has one since 5.12), another CPU may overwrite a larger value: look again. */
#define MAX_LOOKS 4

static __always_inline u32 fold_of(u32 schema, u32 slot)
{
	return schema >> slot * SCHEMA_SHIFT & ((1 << SCHEMA_SHIFT) - 1);
}

/* What a slot holds after one occurrence. */
static __always_inline u64 first_value(u32 fold, u64 value)
{
	if (fold == FOLD_NONE)
		return 0;
	return fold == FOLD_SQUARES ? value * value : value;
}

static __always_inline void fold_value(u64 *slot, u32 fold, u64 value)
{
	u32 i;

	/* Zero changes nothing; an atomic addition costs more than to look. */
	if (fold == FOLD_NONE || !value)
		return;
	if (fold != FOLD_MAX) {
		__sync_fetch_and_add(slot, first_value(fold, value));
		return;
	}
	for (i = 0; i < MAX_LOOKS; i++) {
		if (*(volatile u64 *)slot >= value)
			break;
		*(volatile u64 *)slot = value;
	}
}

/* Adds one occurrence to the values of its key. */
static __always_inline void add_values(struct total *total, u32 schema, u64 first, u64 second, u64 third)
{
	fold_value(&total->values[0], fold_of(schema, 0), first);
	fold_value(&total->values[1], fold_of(schema, 1), second);
	fold_value(&total->values[2], fold_of(schema, 2), third);
}

#endif
