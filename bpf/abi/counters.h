/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Counters of the ledger. The programs count in them for each CPU and event. */
#ifndef PERF_AGENT_ABI_COUNTERS_H
#define PERF_AGENT_ABI_COUNTERS_H

#include "frame.h"

enum counter {
	COUNT_SKIPPED_MIN_BLOCK_NS = 0, /* time of the off-CPU intervals that were too short to be recorded */
	COUNT_LOST_RING_FULL = 1,	/* an unseen stack did not fit into the ring */
	COUNT_LOST_MAP_FULL = 2,	/* no room for one more distinct stack */
	COUNT_LOST_NO_MEMORY = 3,	/* no state for this CPU or process */
	COUNT_OUTSIDE_NAMESPACE = 4,
	COUNT_DEFERRED = 5, /* samples whose stack was sent unwalked, to be walked in user space */
	COUNT_MEMO_CHECKED = 6,
	COUNT_MEMO_DIFFERED = 7,
	COUNT_SKIPPED_MIN_BLOCK = 8, /* the number of off-CPU intervals that were too short to be recorded */
	COUNT_STACKS_SENT = 9,
	COUNT_REQUESTS_LOST = 10, /* requests to user space that did not fit into the ring */
	COUNT_PROCS_LOST = 11,	  /* processes that could not be followed: table full */
	/* Each sample adds to the following, so they stand together. */
	COUNT_MEMO_HITS = 12,
	COUNT_FRAMES_WALKED = 13, /* those of COUNT_FRAMES that were not taken from a memo */
	COUNT_FRAMES = 14,	  /* user frames of all walks */
	COUNT_SAMPLES = 15,	  /* recorded */
	COUNT_WALKS = 16,	  /* + enum walk_end */
	COUNT_LOST_UNSEEN = 30,	  /* intervals whose begin the kernel did not report */
	COUNT_SWITCHES_LOST = 31, /* values missing in the statistics of a process, for lack of room */
	COUNT_LOST_BUSY = 32,	/* another program used what this one needed: a table's lock, or the state of its CPU */
	COUNT_CAME_UNSEEN = 33, /* slices whose begin the kernel did not report; the wait before is missing too */
	COUNT_READS_FAILED = 34, /* counters of events that could not be read at a switch */
	COUNT_THREADS_LOST = 35, /* threads that could not be followed */
	COUNT_WAKERS_LOST = 36,	 /* intervals that were recorded without their waker */
	COUNT_LIFETIME_NS = 37,	 /* time that ended threads lived inside the capture */
	/* Walks by frame pointer whose leaf may not have set up its frame, and walks at a return that show the function
	 * that returns, because its return address cannot be read. */
	COUNT_LEAVES_UNDECIDED = 38,
	COUNT_SEAMS_LOST = 40,	 /* threads whose seam record did not fit */
	COUNT_SINGLES_LOST = 41, /* single samples that did not fit into the ring; they are in the sums */
	/* Stacks that user space could have walked and that were not sent to it: */
	COUNT_UNSENT_OF_PROCESS = 42, /* the process has sent its share */
	COUNT_UNSENT_OF_MACHINE = 43, /* all processes together have */
	COUNT_UNSENT_RING_FULL = 44,
	COUNT_PYTHON_WALKS = 45, /* + enum python_end */
	COUNT_PYTHON_HALF_LINKED =
	    52, /* of these walks: the innermost call of the evaluator was not in the chain yet */
	COUNT_CODES_SENT = 53,
	COUNT_CODES_UNSENT = 54,     /* they did not fit into the ring; the next walk sends them again */
	COUNT_CODES_UNREADABLE = 55, /* frames without a name, because their code object could not be read */
	COUNT_LOCK_WAITS = 60,	     /* waits for locks that were recorded */
	COUNT_LOCKS_LOST = 61,	     /* waits for locks that were not, for lack of room */
	COUNT_OWNERS_LOST = 62,	     /* waits for locks that were recorded without their owner, though it was known */
	COUNT_LENGTHS_LOST = 63,     /* waits for locks whose length is missing in the distribution */
	/* Of the occurrences of an event that has a value, those that are recorded without it: */
	COUNT_VALUES_UNREADABLE = 56,
	COUNT_VALUES_NEGATIVE = 57, /* or too large for a sum */
	COUNT_GO_HITS = 58,	    /* hits of the probes that follow goroutines, for their price */
	COUNTERS = 64,
};

struct counters {
	unsigned long long at[COUNTERS];
};

_Static_assert(COUNT_WALKS + WALK_ENDS <= COUNT_LOST_UNSEEN, "room for every end of a walk");

#endif
