/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Records of process life; bpf/life.h sends them. */
#ifndef PERF_AGENT_ABI_LIFE_H
#define PERF_AGENT_ABI_LIFE_H

#include "processes.h"

/* At most one name of a process is sent in this time; see bpf/life.h. */
#define RENAME_WINDOW_NS 100000000ULL

enum life_event {
	LIFE_FORK = 1,	     /* `time` is the exec_id of the child */
	LIFE_EXEC = 2,	     /* `time` is the new exec_id */
	LIFE_EXIT = 3,	     /* the last thread of the process has ended */
	LIFE_RENAME = 4,     /* the process has this name from now on */
	LIFE_LOOK_AGAIN = 5, /* read the name of the process at `time` or later: names until then are not sent */
};

struct life {
	unsigned int kind;  /* MESSAGE_LIFE */
	unsigned int event; /* enum life_event */
	unsigned int pid;
	unsigned int parent;	 /* of LIFE_FORK: that forked; of LIFE_EXIT: the parent, with CONTROL_TELLS_ALL_LIVES */
	unsigned long long time; /* CLOCK_MONOTONIC */
	char comm[COMM_LEN];	 /* the name of the process; of LIFE_LOOK_AGAIN: none */
};

struct life_counts {
	unsigned long long lost;	  /* records that did not fit into the ring */
	unsigned long long names_skipped; /* names that were not sent because they came too fast */
};

_Static_assert(sizeof(struct life) == 40, "record of process life");
_Static_assert(sizeof(struct life_counts) == 16, "two counts");

#endif
