/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Words that user space and the programs share. */
#ifndef PERF_AGENT_ABI_CONTROL_H
#define PERF_AGENT_ABI_CONTROL_H

/*
 * Words that user space and the programs share; each is written by one of the two alone. There are two sides of sums,
 * counters and pending counts: the programs add to one while user space empties the other. At a seam, user space takes
 * what was added so far and changes the side; it also does that between seams, when a side is half full.
 */
enum control_word {
	CONTROL_CHANGED_BY_PROGRAMS = 0,   /* how often they changed `procs` */
	CONTROL_CHANGED_BY_USER_SPACE = 1, /* the same */
	CONTROL_SIDE_CHANGES = 2,	   /* how often the side was changed; the last bit names the one in use */
	/*
	 * By side: the last seam before the side was in use. The next seam is written to the other side shortly before
	 * its time. CLOCK_MONOTONIC; 0: there was none.
	 */
	CONTROL_SEAM_NS = 3,
	CONTROL_PREVIOUS_SEAM_NS = 5,
	CONTROL_GATHERED_SEAM_NS = 7, /* the seam whose records user space gathers now; 0: none */
	CONTROL_STATS_CHANGES = 8,    /* as CONTROL_SIDE_CHANGES, of the statistics of processes */
	/* Begin and end of the following of threads, CLOCK_MONOTONIC; 0: not yet. */
	CONTROL_FOLLOWED_FROM_NS = 9,
	CONTROL_FOLLOWED_TO_NS = 10,
	CONTROL_WORDS = 11,
};

#endif
