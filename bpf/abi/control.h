/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Words that user space and the programs share. */
#ifndef PERF_AGENT_ABI_CONTROL_H
#define PERF_AGENT_ABI_CONTROL_H

/*
 * Words that user space and the programs share; each has one writer. Sums, counters and pending counts have two sides:
 * the programs add to one side while user space empties the other. At a seam, user space changes the side and takes
 * what was added before. It also does so between seams when a side is half full.
 */
enum control_word {
	CONTROL_CHANGED_BY_PROGRAMS = 0,   /* how often the programs changed `procs` */
	CONTROL_CHANGED_BY_USER_SPACE = 1, /* how often user space changed `procs` */
	CONTROL_SIDE_CHANGES = 2,	   /* how often the side was changed; the last bit names the one in use */
	/*
	 * For each side, the last seam before the side was in use. The next seam is written to the word of the other
	 * side shortly before its time. CLOCK_MONOTONIC; 0: there was none.
	 */
	CONTROL_SEAM_NS = 3,
	CONTROL_PREVIOUS_SEAM_NS = 5,
	/*
	 * The epoch. It advances each second while room for tables or processes is scarce; the programs note it where
	 * they use one. Each walk reads it, so it is among the first eight words, which share a cache line.
	 */
	CONTROL_EPOCH = 7,
	CONTROL_GATHERED_SEAM_NS = 8, /* the seam whose records user space gathers now; 0: none */
	CONTROL_STATS_CHANGES = 9,    /* as CONTROL_SIDE_CHANGES, for the statistics of processes */
	/* When the programs began and ended to follow threads, CLOCK_MONOTONIC; 0: not yet. */
	CONTROL_FOLLOWED_FROM_NS = 10,
	CONTROL_FOLLOWED_TO_NS = 11,
	CONTROL_TELLS_ALL_LIVES = 12, /* not 0: forks and exits of processes that are not recorded are told too */
	CONTROL_WORDS = 13,
};

#endif
