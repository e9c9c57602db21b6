/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Sends stacks through the ring. A part of the ring is reserved for records of process life (life.h): a flood of stacks
 * must not displace records of forks and execs, because later stacks cannot be named without them.
 */
#ifndef PERF_AGENT_RING_H
#define PERF_AGENT_RING_H

#include "maps.h"
#include "walk_state.h"

/* One eighth of the ring. */
#define LIFE_RESERVE_SHIFT 3

/*
 * Sends a message about a stack, of at most `most` bytes. Returns not 0 if there is no room outside the reserve.
 * Several CPUs may pass the check at the same time, so the reserve can shrink by one message for each CPU.
 */
static __always_inline long send_beside_life(void *message, u64 size, u64 most)
{
	u64 ring_size = bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE);
	u64 room = ring_size - (ring_size >> LIFE_RESERVE_SHIFT);

	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) + size > room)
		return -1;
	/* The verifier of Linux 5.10 forgets the bounds of a value that was spilled to the stack. */
	keep_in_register(size);
	if (size > most)
		return -1;
	return bpf_ringbuf_output(&ring, message, size, BPF_RB_NO_WAKEUP);
}

/* Sends a code object, with `size` bytes of sections. */
static __always_inline long send_code(struct outbox *box, u64 size)
{
	return send_beside_life(box, sizeof(struct message) + size, sizeof(*box));
}

#endif
