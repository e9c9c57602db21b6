/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The 64-bit hash that identifies a stack. Nothing else does, so two stacks with one hash would be counted as one.
 *
 * A secret of the run protects it, in the multiplier and in the first value. With known multipliers a target could make
 * two stacks that have one hash for every first value: the top bit of a value is the top bit of its product, and a
 * chosen difference of the next value cancels it. Here a difference is multiplied by the secret twice before the next
 * value is mixed in, and some 32 bits of the product depend on the secret. So a pair of stacks that is made for this
 * has one hash in about one of 2^32 runs, and a target with many pairs has as many tries. It gains a count in the wrong
 * one of its own stacks. By chance two stacks have one hash in one of 2^56 cases, because the low byte of a key is no
 * hash.
 */
#ifndef PERF_AGENT_STACKHASH_H
#define PERF_AGENT_STACKHASH_H

#include "walk_state.h"

static __always_inline u64 hash_mix(u64 hash, u64 value)
{
	u64 secret = (hash_seed() ^ 0x9e3779b97f4a7c15ULL) | 1;

	hash = (hash ^ value) * secret;
	hash = (hash ^ (hash >> 32)) * secret;
	return hash ^ (hash >> 32);
}

#endif
