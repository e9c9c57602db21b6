/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Sums by key: events, states, the schemas of values, and the sums themselves. Seam records: the time that is added to
 * sums at a seam.
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

/* More states of stacks. */
#define STATE_ON_CPU 4 /* time on a CPU, for a wall-clock profile */
#define STATE_WAKER 5  /* the stack of a waker */
#define STATE_WAKER_IN_SOFTIRQ                                                                                         \
	6 /* a waker in a softirq: an interrupt, or deferred work in a system call; its kernel frames tell */
#define STATE_NOT_RUN_YET 7 /* runnable, between the creation of a thread and its first moment on a CPU */
#define STATE_FREED 8	    /* objects that the stack has allocated and that were freed */

/* The event whose occurrences a key counts. */
enum event {
	EVENT_CLOCK = 0,     /* samples of the clock, or of the event that takes its place */
	EVENT_SCHEDULER = 1, /* switches of threads */
	COUNTED_EVENTS = 2,  /* those before have counters of their own */
	/* Waits for locks, which are intervals of the scheduler too; and the same waits by their length. */
	EVENT_LOCK = 2,
	EVENT_LOCK_LENGTH = 3,
	/* Further events that are sampled beside the first one, each by an object of its own: see `sampled_event`. */
	EVENT_SECOND = 8,
	EVENT_THIRD = 9,
	EVENT_FOURTH = 10,
	EVENT_FIFTH = 11,
	EVENT_SIXTH = 12,
};

/* How the values of several occurrences become one. */
enum fold {
	FOLD_NONE = 0, /* the event has no such value */
	FOLD_SUM = 1,
	FOLD_SQUARES = 2, /* the sum of the squares; it wraps around, so values must be small enough */
	FOLD_MAX = 3,	  /* the largest; if two CPUs write at the same moment, the larger value may be lost */
};

#define SCHEMA_SHIFT 4
#define SCHEMA(first, second, third) ((first) | (second) << SCHEMA_SHIFT | (third) << 2 * SCHEMA_SHIFT)

/*
 * How each value slot of an event folds. The first slot is always the number of occurrences. Names and units are in
 * crates/recording/src/event.rs.
 */
enum event_schema {
	SCHEMA_CLOCK = SCHEMA(FOLD_SUM, FOLD_NONE, FOLD_NONE), /* samples; each stands for one period */
	SCHEMA_VALUE = SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_NONE),  /* samples, and a value of each */
	SCHEMA_SCHEDULER =
	    SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_SUM),	    /* intervals, their time, and the runnable part of it */
	SCHEMA_LOCK = SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_MAX), /* waits, their time, and the longest */
	SCHEMA_LOCK_LENGTH = SCHEMA(FOLD_SUM, FOLD_NONE, FOLD_NONE), /* waits of about this length */
	SCHEMA_HEAP = SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_NONE),	/* objects and their bytes, in the place of samples */
	SCHEMA_TEST = SCHEMA(FOLD_SUM, FOLD_SQUARES, FOLD_MAX), /* only for tests */
};

/* The low byte of every key has the state and the event of its sums. The rest is a hash. */
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

/* As the second value of sums with count 0: the single interval of this key will not be recorded. */
#define SUMS_END 1

/* Samples of one stack on one CPU that are not yet added to its sums. */
struct pending_count {
	unsigned long long key; /* its sums are in the table; 0: none */
	unsigned long long count;
};

#define PENDING_COUNTS_SHIFT 6

struct pending_counts {
	struct pending_count at[1 << PENDING_COUNTS_SHIFT];
};

/*
 * A thread at a seam: the parts of its present stretch (on or off a CPU) and of its life that lie before the seam and
 * were not accounted at an earlier seam.
 */
struct seam_record {
	unsigned long long seam_ns;
	unsigned long long key;	     /* of the stretch; 0: it is not recorded */
	unsigned long long value;    /* ns of the stretch; 0: it may still be too short to be recorded */
	unsigned long long waited;   /* of these, the time in which the thread could have run */
	unsigned long long lifetime; /* ns of its life */
	unsigned long long lock;     /* key of the wait for a lock that the stretch is; 0: it is none */
	unsigned long long lock_ns;  /* ns of that wait */
};

_Static_assert(sizeof(struct total) == 24, "sums of a stack");
_Static_assert(sizeof(struct pending_counts) == 1024, "pending counts");
_Static_assert(sizeof(struct seam_record) == 56, "a thread at a seam");

#endif
