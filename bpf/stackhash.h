/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The 64-bit hash by which stacks are told apart. Nothing else does: two stacks with one hash would be one.
 *
 * What protects is a secret of the run, in the multiplier as well as in the first value. With multipliers that are
 * known, a target could make two stacks that have one hash under every first value: the top bit of a value is the top
 * bit of its product, and a chosen difference of the next value takes it away again. Here a difference is multiplied
 * twice by the secret before the next value can meet it, and some 32 bits of the product depend on the secret: a pair
 * that is made for it has one hash in about one of 2^32 runs, and a target that shows many pairs has as many tries.
 * What it gains is a count in the wrong one of its own stacks. Two stacks by chance: the low byte of a key aside, one
 * of 2^56.
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
