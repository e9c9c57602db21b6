/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the programs know of a process: its mappings and its record in `procs`. */
#ifndef PERF_AGENT_ABI_PROCESSES_H
#define PERF_AGENT_ABI_PROCESSES_H

#define COMM_LEN 16

enum mapping_kind {
	MAPPING_TABLE = 0,     /* `table` is the address in the table pool of a page_table */
	MAPPING_FP = 1,	       /* no unwind information: frame pointers */
	MAPPING_NOT_READY = 2, /* the table is being made */
	MAPPING_NOWHERE = 3,   /* no mapping: walks came here, and user space has looked */
};

/* An executable mapping; 8-word aligned in the table pool, sorted by start within a process. */
struct mapping {
	unsigned long long start; /* first address in the process */
	unsigned long long end;	  /* first address after it */
	unsigned long long bias;  /* address in the process - link-time address */
	unsigned int table;
	unsigned int kind;
};

#define PROC_NEW 1		   /* mappings not known yet */
#define PROC_ASKED 2		   /* user space has been asked to read the mappings again */
#define PROC_WAKER 4		   /* not recorded: known only because it wakes recorded threads */
#define PROC_OTHER_KERNEL_STACKS 8 /* for kernel frames, the opposite of the default holds */
#define PROC_KEPT_BY_EXEC (PROC_WAKER | PROC_OTHER_KERNEL_STACKS)

/* What the programs know of a process that is recorded. */
struct proc {
	unsigned int mappings; /* address in the table pool */
	unsigned int count;
	unsigned int generation; /* changes with the mappings and with their tables */
	unsigned short flags;
	unsigned short python; /* 1 + the number of its interpreter in `pythons`; 0: none is known */
	/* A time (CLOCK_MONOTONIC). It changes with exec and with the name, and distinguishes processes with equal
	 * pids. */
	unsigned long long exec_id;
	unsigned int epoch; /* the last in which a program took a stack of it: CONTROL_EPOCH */
	unsigned int pad;
};

_Static_assert(sizeof(struct mapping) == 32, "8 words a mapping");
_Static_assert(sizeof(struct proc) == 32, "process");

#endif
