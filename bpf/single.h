/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Single samples: where an output asks for the time, CPU and thread of each sample, a message follows its stack. */
#ifndef PERF_AGENT_SINGLE_H
#define PERF_AGENT_SINGLE_H

#include "ring.h"

struct single {
	struct message message;
	struct section at_head;
	struct sampled_at at;
	struct section values_head;
	u64 value;
};

/* With the value of an event that has one. A struct of its own, because of its room on the stack. */
struct single_with_value {
	struct single single;
	u64 second;
};

static __always_inline struct sampled_at sampled_here(struct sampler_state *s)
{
	return (struct sampled_at){.cpu = bpf_get_smp_processor_id(), .side_changes = s->changes};
}

/*
 * Sends a sample. Of its message, process, thread, key, event, state and time are there. So many bytes of further
 * values follow it.
 */
static __always_inline void send_one(struct sampler_state *s, struct single *single, u64 value, u32 further)
{
	u32 size = sizeof(*single) + further;

	single->message.kind = MESSAGE_SAMPLE;
	single->message.bytes = size - sizeof(single->message);
	single->at_head = (struct section){.kind = SECTION_SAMPLED_AT, .bytes = sizeof(single->at)};
	single->at = sampled_here(s);
	single->values_head = (struct section){.kind = SECTION_VALUES,
					       .count = 1 + further / sizeof(single->value),
					       .bytes = sizeof(single->value) + further};
	single->value = value;
	if (send_beside_life(single, size, size))
		count(counters_in(s), COUNT_SINGLES_LOST, 1);
}

#endif
