/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Where the value of an event is that is summed up beside the number of its occurrences. */
#ifndef PERF_AGENT_ABI_VALUE_H
#define PERF_AGENT_ABI_VALUE_H

/* Where to begin. */
enum value_base {
	VALUE_NONE = 0,	    /* occurrences are counted only */
	VALUE_RECORD = 1,   /* the record of a tracepoint: the value is `at` bytes from its begin */
	VALUE_REGISTER = 2, /* a register, `at` bytes from the begin of the registers of a probe */
	VALUE_CONSTANT = 3, /* a number: the first of `offsets` */
};

enum value_step_limit {
	MAX_VALUE_STEPS = 4,
};

/*
 * From a register, each step adds an offset and loads the word there; the last one loads the value. Of the loaded bytes
 * a number of bits is the value: it is shifted to the highest bit, and back.
 */
struct value_plan {
	unsigned int base; /* enum value_base */
	unsigned int at;
	unsigned int steps;
	unsigned int size; /* bytes of the value in memory: 1 to 8 */
	unsigned int shift_left;
	unsigned int shift_right;
	unsigned int has_sign;
	unsigned int in_kernel; /* the steps lead through memory of the kernel */
	long long offsets[MAX_VALUE_STEPS];
};

_Static_assert(sizeof(struct value_plan) == 64, "where a value is");

#endif
