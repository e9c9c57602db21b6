// SPDX-License-Identifier: GPL-2.0
/* A minimal sampling profiler: it takes the user stack by frame pointers and does nothing else. */
#include "measure.h"

#define MOST_FRAMES 127

struct stack {
	u64 frames[MOST_FRAMES];
	u64 samples;
	u64 bytes;
};

struct {
	int (*type)[PERCPU_ARRAY];
	u32 *key;
	struct stack *value;
	int (*max_entries)[1];
} stacks SEC(".maps");

SEC("perf_event")
int bare_stack(void *ctx)
{
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&stacks, &zero);
	if (!stack)
		return 0;
	long length = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), USER_STACK);
	if (length > 0) {
		stack->samples++;
		stack->bytes += length;
	}
	return 0;
}
