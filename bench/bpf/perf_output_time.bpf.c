// SPDX-License-Identifier: GPL-2.0
/* Time that `perf record` spends per sample in the kernel: perf_event_output_forward takes the call chain, copies the
 * user stack and writes the record. It is the counterpart of a BPF program's run time; both leave out the timer
 * interrupt. perf events with a BPF program never call this function. */
#include "measure.h"

struct total {
	u64 entered_at;
	u64 run_ns;
	u64 runs;
};

struct {
	int (*type)[PERCPU_ARRAY];
	u32 *key;
	struct total *value;
	int (*max_entries)[1];
} totals SEC(".maps");

SEC("fentry/perf_event_output_forward")
int output_begins(void *ctx)
{
	u32 zero = 0;
	struct total *total = bpf_map_lookup_elem(&totals, &zero);
	if (total)
		total->entered_at = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit/perf_event_output_forward")
int output_ends(void *ctx)
{
	u32 zero = 0;
	struct total *total = bpf_map_lookup_elem(&totals, &zero);
	if (total && total->entered_at) {
		total->run_ns += bpf_ktime_get_ns() - total->entered_at;
		total->runs++;
		total->entered_at = 0;
	}
	return 0;
}
