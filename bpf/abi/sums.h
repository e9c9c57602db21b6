/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Sums: what a key says about its sums, which values they have, and how values are added. A seam record holds what is
 * added to the sums of a thread at a seam.
 */
#ifndef PERF_AGENT_ABI_SUMS_H
#define PERF_AGENT_ABI_SUMS_H

/* What a thread does while it is not on a CPU. */
enum off_state {
	OFF_NONE = 0, /* it is on a CPU */
	OFF_BLOCKED = 1,
	OFF_IOWAIT = 2,	   /* uninterruptible sleep that adds to load */
	OFF_PREEMPTED = 3, /* runnable */
	OFF_STATES = 4,
};

/* As the state of a stack: its sums are of time on a CPU, for a wall-clock profile; of the waker of a thread. */
#define STATE_ON_CPU 4
#define STATE_WAKER 5
/* The same; the kernel's part of the stack tells whether it was an interrupt or work put off in a system call. */
#define STATE_WAKER_IN_SOFTIRQ 6
/* As OFF_PREEMPTED: from the making of a thread to its first moment on a CPU. */
#define STATE_NOT_RUN_YET 7

/* What the sums of a key are counted by. */
enum event {
	EVENT_CLOCK = 0,     /* samples of the clock */
	EVENT_SCHEDULER = 1, /* switches of threads */
	EVENTS = 2,
};

/* How the values of several occurrences become one. */
enum fold {
	FOLD_NONE = 0, /* the event has no such value */
	FOLD_SUM = 1,
	FOLD_SQUARES = 2, /* the sum of the squares; it wraps around, so values must be small enough */
	FOLD_MAX = 3,	  /* the largest; of two CPUs at the same moment, the larger one may be missed */
};

#define SCHEMA_SHIFT 4
#define SCHEMA(first, second, third) ((first) | (second) << SCHEMA_SHIFT | (third) << 2 * SCHEMA_SHIFT)

/*
 * What the sums of a key hold, by event: how each slot folds. The first slot is always the number of occurrences. Names
 * and units are in crates/recording/src/event.rs.
 */
enum event_schema {
	SCHEMA_CLOCK = SCHEMA(FOLD_SUM, FOLD_NONE, FOLD_NONE),	 /* samples, each of a period */
	SCHEMA_SCHEDULER = SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_SUM), /* intervals, their time, of it the time runnable */
	SCHEMA_TEST = SCHEMA(FOLD_SUM, FOLD_SQUARES, FOLD_MAX),	 /* of no event: for tests */
};

/* The low byte of every key of sums: what they are sums of. The rest is a hash. */
#define KEY_STATE 0x0fULL
#define KEY_EVENT_SHIFT 4
#define KEY_KIND 0xffULL

enum value_limit {
	VALUE_SLOTS = 3, /* values of an event */
};

/* The sums of a key: values by the schema of its event. */
struct total {
	unsigned long long values[VALUE_SLOTS];
};

/* As the second value of a sum with count 0: an interval with a key of its own will not be recorded. */
#define SUMS_END 1

/* So many samples of one stack on one CPU, which are still to be added to the sums of the stack. */
struct pending_count {
	unsigned long long key; /* 0: none; its sums are entered in the table */
	unsigned long long count;
};

#define PENDING_COUNTS_SHIFT 6

struct pending_counts {
	struct pending_count at[1 << PENDING_COUNTS_SHIFT];
};

/*
 * A thread at a seam: what of its stretch on or off a CPU, and of its life, lies before the seam and has not been
 * accounted at an earlier one.
 */
struct seam_record {
	unsigned long long seam_ns;
	unsigned long long key;	     /* the stretch is added under this; 0: it is not recorded */
	unsigned long long value;    /* ns of the stretch; 0: it may still be too short to be recorded */
	unsigned long long waited;   /* of these, the time in which the thread could have run */
	unsigned long long lifetime; /* ns of its life */
};

_Static_assert(sizeof(struct total) == 24, "sums of a stack");
_Static_assert(sizeof(struct pending_counts) == 1024, "pending counts");
_Static_assert(sizeof(struct seam_record) == 40, "a thread at a seam");

#endif
