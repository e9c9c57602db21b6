/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Samples at probes of programs. Since Linux 6.0 such a program runs with preemption on: another thread's may begin on
 * the same CPU before it has ended. So it claims the state of its CPU; if that is in use, its sample is lost, and
 * counted. Since 6.13 a large program also has a private stack for each CPU, which the other would overwrite: there the
 * entry turns preemption off, and has nothing on its own stack.
 */
#ifndef PERF_AGENT_PROBE_H
#define PERF_AGENT_PROBE_H

#include "cpu.h"

/* `priv_stack_ptr` is what kernels with private stacks have. */
struct bpf_prog_aux___with_private_stack {
	void *priv_stack_ptr;
} __attribute__((preserve_access_index));

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* An entry with a body of its own. Nothing is on its stack. */
#define PROBE_PROGRAM(name, body)                                                                                      \
	SEC("kprobe")                                                                                                  \
	int name(struct pt_regs *ctx)                                                                                  \
	{                                                                                                              \
		if (bpf_core_field_exists(struct bpf_prog_aux___with_private_stack, priv_stack_ptr)) {                 \
			bpf_preempt_disable();                                                                         \
			body(ctx);                                                                                     \
			bpf_preempt_enable();                                                                          \
			return 0;                                                                                      \
		}                                                                                                      \
		return body(ctx);                                                                                      \
	}

static __always_inline int take_sample_at(void *ctx, bool at_return)
{
	struct sampler_state *s = state_at(slot_of(CONTEXT_PROBE));

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	if (!claim(&s->claims)) {
		__sync_fetch_and_add(&s->busy[side_in_use(CONTROL_SIDE_CHANGES)], 1);
		return 0;
	}
	take_sample(ctx, CONTEXT_PROBE, false, at_return);
	release_slot(s);
	return 0;
}

/* Not inlined, both: their variables must not be on the stack of the entry. */
static __noinline int take_probe_sample(struct pt_regs *ctx)
{
	return take_sample_at(ctx, false);
}

static __noinline int take_return_sample(struct pt_regs *ctx)
{
	return take_sample_at(ctx, true);
}

PROBE_PROGRAM(probe_sample, take_probe_sample)
PROBE_PROGRAM(probe_return_sample, take_return_sample) /* at an instruction that returns */

/* Probes of functions of the kernel come anywhere, and one at a time on a CPU, as tracepoints do. */
SEC("kprobe")
int kprobe_sample(void *ctx)
{
	return take_sample(ctx, CONTEXT_ANY, false, false);
}

#endif
