/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Allocations: what the programs at functions of allocators count besides the sums. */
#ifndef PERF_AGENT_ABI_HEAP_H
#define PERF_AGENT_ABI_HEAP_H

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
	HEAP_COUNTS = 10,
};

struct heap_counts {
	unsigned long long at[HEAP_COUNTS];
};

/* A live object. Each program that a process executes has objects of its own. */
struct object_id {
	unsigned long long address;
	unsigned int pid;
	unsigned int exec; /* how many programs the process has executed */
};

struct object {
	unsigned long long key; /* of the sums of the stack that allocated it */
	unsigned long long size;
};

_Static_assert(sizeof(struct object_id) == 16, "two words");

#endif
