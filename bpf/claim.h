/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One program at a time has a slot. Programs that can be preempted claim one: another such program may run on the same
 * CPU before they have ended. Also compiled natively (crates/replay), for its tests.
 */
#ifndef PERF_AGENT_CLAIM_H
#define PERF_AGENT_CLAIM_H

/*
 * `claims` counts the programs that have the slot or are trying to get it. A program has it only if it is alone, so two
 * programs that try at the same moment may both fail. Linux 5.10 knows no other atomic operation than an addition
 * whose result is not returned.
 */
static __always_inline bool claim(u64 *claims)
{
	__sync_fetch_and_add(claims, 1);
	if (*(volatile u64 *)claims == 1)
		return true;
	__sync_fetch_and_add(claims, -1);
	return false;
}

static __always_inline void release(u64 *claims)
{
	__sync_fetch_and_add(claims, -1);
}

#endif
