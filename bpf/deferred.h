/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Deferred walks. Shortly after an exec, a dlopen or the first sample of a process, the unwind tables of its code are
 * not ready yet. The stack is then not truncated but sent to user space as bytes. User space walks it with the same
 * rules when the tables are ready.
 */
#ifndef PERF_AGENT_DEFERRED_H
#define PERF_AGENT_DEFERRED_H

#include "aggregate.h"

/* Copies the stack, with its red zone, page by page up to its end. Returns the number of bytes. */
__noinline int copy_stack(u32 slot)
{
	struct rawbox *box = bpf_map_lookup_elem(&rawboxes, &slot);
	u32 done = 0, end = 0, missing = 0, i;
	u64 from, holes = 0;

	if (!box)
		return 0;
	from = box->registers.at[STACK_POINTER] - RED_ZONE;
	for (i = 0; i < RAW_STACK_BYTES / SMALLEST_PAGE; i++) {
		u32 size = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1));

		if (read_user(&box->stack[done & RAW_MASK], size, from)) {
			holes |= 1ULL << i;
			if (++missing == RAW_STACK_END)
				break;
		} else {
			missing = 0;
			end = done + size;
		}
		done += size;
		from += size;
	}
	box->raw.holes = holes;
	return end & RAW_MASK;
}

/* Copies the user registers by DWARF number, from the place that the walk has found. */
__noinline int copy_registers(u32 slot)
{
	struct rawbox *box = bpf_map_lookup_elem(&rawboxes, &slot);
	struct walk *w = walk_at(slot);
	u32 i;

	if (!box || !w)
		return 1;
	for (i = 0; i < DWARF_REGISTERS; i++)
		if (saved_register(w->start_regs, i, &box->registers.at[i]))
			return 1;
	return 0;
}

/* Length of the sections before the kernel frames, and before the bytes of the stack. */
#define RAW_KERNEL_AT (__builtin_offsetof(struct rawbox, kernel) - sizeof(struct message))
#define RAW_STACK_AT (__builtin_offsetof(struct rawbox, stack) - sizeof(struct message))

/* Fills the heads of the message and of its sections. With `stack_bytes` 0 the message ends with its last kernel frame.
 */
static __always_inline void address_raw(struct rawbox *box, struct sample *sample, u32 end, u64 key, long kernel_bytes,
					u32 stack_bytes)
{
	u32 kernel = kernel_bytes > 0 ? (u32)kernel_bytes / 8 : 0;

	box->message.kind = MESSAGE_RAW;
	box->message.pid = sample->pid;
	box->message.tid = sample->tid;
	box->message.end = end;
	box->message.hash = key;
	box->message.exec_id = sample->exec_id;
	box->message.state = sample->state;
	box->message.event = sample->event;
	name_of(sample, box->message.thread);
	box->message.time = bpf_ktime_get_ns();
	box->at_head = (struct section){.kind = SECTION_SAMPLED_AT, .bytes = sizeof(box->at)};
	box->registers_head = (struct section){.kind = SECTION_REGISTERS, .bytes = sizeof(box->registers)};
	box->kernel_head = (struct section){.kind = SECTION_KERNEL_FRAMES, .count = kernel};
	if (!stack_bytes) {
		box->kernel_head.bytes = kernel * 8;
		box->message.bytes = RAW_KERNEL_AT + kernel * 8;
		return;
	}
	box->kernel_head.bytes = sizeof(box->kernel);
	box->stack_head = (struct section){.kind = SECTION_STACK, .bytes = sizeof(box->raw) + stack_bytes};
	box->message.bytes = RAW_STACK_AT + stack_bytes;
}

/* User space knows newer mappings, more tables, and every rule that unwind information can have. */
static __always_inline bool may_be_walked_later(u32 end)
{
	return end == WALK_TABLE_NOT_READY || end == WALK_NO_MAPPING || end == WALK_UNSUPPORTED_RULE;
}

/* Counts one more unwalked stack of the process. Returns false if it may not send more of them now. */
static __always_inline bool may_defer(u32 pid)
{
	struct proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (!proc || proc->deferred >= MAX_DEFERRED)
		return false;
	/* Half of the ring is for walked stacks, which would be lost otherwise. */
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) / 2)
		return false;
	/* Not atomic: the bound need not be exact. */
	proc->deferred++;
	return true;
}

/*
 * Sends the sample with its unwalked stack; its sums come under `key`, unless that is 0. Returns not 0 if it was not
 * sent: the caller then records the stack as far as it was walked. Not inlined, because few samples come here.
 */
static __noinline int defer_walk(void *ctx, struct sampler_state *s, struct sample *sample, u32 end, u64 key)
{
	struct rawbox *box = bpf_map_lookup_elem(&rawboxes, &sample->slot);
	long kernel = 0;
	u64 size;

	if (!box || !may_defer(sample->pid) || copy_registers(sample->slot))
		return 1;
	box->registers.pc = s->walk.start_pc & FRAME_PC;
	if (takes_kernel_stack(sample))
		kernel = bpf_get_stack(ctx, box->kernel, sizeof(box->kernel), 0);
	size = (u32)copy_stack(sample->slot);
	if (size > RAW_STACK_BYTES)
		size = RAW_STACK_BYTES;
	address_raw(box, sample, end, key, kernel, size);
	box->at = sampled_here(s);
	if (send_beside_life(box, __builtin_offsetof(struct rawbox, stack) + size, sizeof(*box)))
		return 1;
	count(counters_in(s), COUNT_DEFERRED, 1);
	return 0;
}

/* A key for a single stretch of a thread, on or off a CPU, that began at `since`. */
static __always_inline u64 own_key(u32 pid, u32 tid, u64 since, u32 state)
{
	return key_in(hash_mix(hash_mix(seed ^ since, tid), pid), kind_of(EVENT_SCHEDULER, state));
}

/*
 * To be called after a walk whose sample is to be recorded. If user space can walk the stack further, and the process
 * may send an unwalked stack, sends it and returns true. Its sums come under the key of the single stretch that began
 * at `since`; a sample (`since` 0) has no key. Otherwise counts the end of the walk, takes the kernel frames and
 * returns false.
 */
static __always_inline bool send_unwalked(void *ctx, struct sampler_state *s, struct sample *sample, u32 end, u64 since)
{
	u64 key;

	if (may_be_walked_later(end)) {
		key = since ? own_key(sample->pid, sample->tid, since, sample->state) : 0;
		if (!defer_walk(ctx, s, sample, end, key))
			return true;
	}
	count(counters_in(s), COUNT_WALKS + end, 1);
	if (takes_kernel_stack(sample))
		take_kernel_stack(ctx, sample);
	return false;
}

#endif
