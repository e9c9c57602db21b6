/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Allocations: what the programs at functions of allocators count besides the sums. */
#ifndef PERF_AGENT_ABI_HEAP_H
#define PERF_AGENT_ABI_HEAP_H

#include "value.h"

enum heap_count {
	HEAP_CALLS = 0,		  /* calls of the probed functions */
	HEAP_FREED = 1,		  /* recorded objects that were freed */
	HEAP_UNKNOWN = 2,	  /* frees of objects that were not recorded, as of those from before the capture */
	HEAP_FAILED = 3,	  /* allocations that the allocator refused */
	HEAP_UNTRACKED = 4,	  /* objects that did not fit into the table of live objects */
	HEAP_UNTRACKED_BYTES = 5, /* and their bytes */
	HEAP_GIVEN_AGAIN = 6,	  /* live objects whose address was given out again: their free was not seen */
	HEAP_CALLS_LOST = 7,	  /* calls that did not fit into the table of calls that go on */
	HEAP_ENTERED = 8,	  /* objects that were entered into the table of live objects */
	HEAP_REMOVED = 9,	  /* and that the programs removed from it */
	HEAP_UNREADABLE = 10,	  /* samples of an allocator whose arguments could not be read */
	HEAP_UNRETURNED = 11,	  /* calls that ended by an exception or a jump, and gave no object */
	HEAP_COUNTS = 12,
};

struct heap_counts {
	unsigned long long at[HEAP_COUNTS];
};

/* A live object. It belongs to a memory, which several processes may share (vfork, CLONE_VM). An exec begins another
 * one. */
struct object_id {
	unsigned long long address;
	unsigned long long memory; /* its number */
};

struct object {
	unsigned long long key; /* of the sums of the stack that allocated it */
	unsigned long long size;
	unsigned long long number; /* of objects that it stands for; `size` is the bytes of them all */
};

/*
 * A place where an allocator tells of a sample. It is known by the lowest bits of its address, which are those of its
 * offset in its file too.
 */
struct heap_site {
	struct value_plan address; /* of the object; none: it is not followed, or another probe has noted it */
	struct value_plan size;
	struct value_plan weight; /* bytes that the sample stands for; none: that follows from the rate */
	/* Where the process has the mean number of bytes between two samples, counted from the probe. */
	long long rate_distance;
	unsigned long long rate; /* the same, if it has it nowhere; 0 in both: each object stands for itself */
	unsigned int rate_is_logarithm;
	/*
	 * The address is not that of the object, but of what the allocator has for all objects of one stack. Then the
	 * end of an object tells its size, and when it was allocated: what is older than this capture is not known.
	 */
	unsigned int is_shared;
	struct value_plan time;
	unsigned long long begin_ns;
};

enum heap_site_limit {
	HEAP_SITE_BITS = 0xfff,
	MAX_HEAP_SITES = 256,
};

_Static_assert(sizeof(struct object_id) == 16, "two words");
_Static_assert(sizeof(struct heap_site) == 288, "four plans, a rate and a time");

#endif
