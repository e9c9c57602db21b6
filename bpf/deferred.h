/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Deferred walks. Shortly after an exec, a dlopen or the first sample of a process, the unwind tables of its code are
 * not ready yet. The stack is then not truncated but sent to user space as bytes. User space walks it with the same
 * rules when the tables are ready.
 */
#ifndef PERF_AGENT_DEFERRED_H
#define PERF_AGENT_DEFERRED_H

#include "aggregate.h"
#include "allowance.h"

/*
 * Copies up to RAW_STACK_BYTES from `from` on, page by page. The copy ends before `end_after` pages in a row that are
 * not readable. Returns the number of bytes.
 */
__noinline int copy_stack(u32 slot, u64 from, u32 end_after)
{
	struct rawbox *box = rawbox_at(slot);
	u32 done = 0, end = 0, missing = 0, i;
	u64 holes = 0;

	if (!box)
		return 0;
	for (i = 0; i < RAW_STACK_BYTES / SMALLEST_PAGE; i++) {
		u32 size = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1));

		if (read_user(&box->stack[done & RAW_MASK], size, from)) {
			holes |= 1ULL << i;
			if (++missing == end_after)
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

/*
 * Where the stack of the current thread began, if that is known and can be reached from `sp`; else 0. It is the main
 * thread's, or lies below the thread control block, as glibc and musl lay stacks out. Other memory does no harm: user
 * space looks bytes up by their address.
 */
static __always_inline u64 begin_of_stack(u64 sp)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 begin = BPF_CORE_READ(task, mm, start_stack);

	if (begin - sp < RAW_STACK_REACH)
		return begin;
	begin = thread_pointer();
	return begin - sp < RAW_STACK_REACH ? begin : 0;
}

/* Copies the user registers by DWARF number, from the place that the walk has found. */
__noinline int copy_registers(u32 slot)
{
	struct rawbox *box = rawbox_at(slot);
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
static __always_inline void address_raw(struct rawbox *box, struct sample *sample, u32 end, u64 key, u64 now,
					long kernel_bytes, u32 stack_bytes)
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
	box->message.time = now;
	box->at_head = (struct section){.kind = SECTION_SAMPLED_AT, .bytes = sizeof(box->at)};
	box->values_head = (struct section){.kind = SECTION_VALUES, .count = 2, .bytes = sizeof(box->values)};
	box->values[0] = 1;
	box->values[1] = sample->value;
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
static __always_inline bool may_be_walked_later(struct walk *w, u32 end)
{
	if (end == WALK_NO_MAPPING)
		return !w->nowhere;
	return end == WALK_TABLE_NOT_READY || end == WALK_UNSUPPORTED_RULE;
}

/* Half of the ring is for walked stacks, which would be lost otherwise. */
static __always_inline bool has_room_for_raw(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) <= bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) / 2;
}

/* Sends the bytes that the box has, under the head that it has. Returns their number, or 0. */
static __always_inline u32 send_raw(struct rawbox *box, u64 size)
{
	size += __builtin_offsetof(struct rawbox, stack);
	return send_beside_life(box, size, sizeof(*box)) ? 0 : size;
}

/*
 * Sends the bytes where the thread began, if its stack is longer than the copy that follows: one large frame may lie in
 * between. Returns how many, or 0. Not inlined, because few stacks are that long.
 */
static __noinline u32 send_begin(struct sample *sample, u64 bottom, u64 now)
{
	struct rawbox *box = rawbox_at(sample->slot);
	u64 begin = begin_of_stack(bottom), from;
	u32 size;

	if (!box || !begin || begin - bottom <= RAW_STACK_BYTES)
		return 0;
	/* The last page of the copy is that of the beginning. */
	from = (begin & ~(SMALLEST_PAGE - 1ULL)) - (RAW_STACK_BYTES - SMALLEST_PAGE);
	size = (u32)copy_stack(sample->slot, from, RAW_STACK_BYTES);
	if (!size || size > RAW_STACK_BYTES)
		return 0;
	address_raw(box, sample, 0, from, now, 0, size);
	box->message.kind = MESSAGE_STACK_PART;
	return send_raw(box, size);
}

/* Sends the Python frames of a stack that follows unwalked. Returns the number of bytes. */
static __noinline u32 send_python(struct sample *sample, u64 now)
{
	struct outbox *box = outbox_at(sample->slot);
	u32 size;

	if (!box)
		return 0;
	size = (put_python(sample->slot, 0) & (OUTBOX_WORDS - 1)) * 8;
	box->message = (struct message){
	    .kind = MESSAGE_INTERPRETED, .pid = sample->pid, .tid = sample->tid, .bytes = size, .time = now};
	return send_beside_life(box, sizeof(struct message) + size, sizeof(*box)) ? 0 : size;
}

/* The same, in a box that is claimed. */
static __always_inline int send_in_box(void *ctx, struct sampler_state *s, struct rawbox *box, struct sample *sample,
				       u32 end, u64 key, u64 now)
{
	u32 size, sent, begin;
	long kernel = 0;
	u64 bottom;

	if (copy_registers(sample->slot))
		return 1;
	/* A walk may begin in the caller of the function that is at its return. */
	box->registers.at[STACK_POINTER] = s->walk.start_sp;
	bottom = s->walk.start_sp - RED_ZONE;
	begin = send_begin(sample, bottom, now);
	if (python && sample->python_sections)
		begin += send_python(sample, now);
	box->registers.pc = s->walk.start_pc & FRAME_PC;
	if (takes_kernel_stack(sample))
		kernel = bpf_get_stack(ctx, box->kernel, sizeof(box->kernel), 0);
	size = (u32)copy_stack(sample->slot, bottom, RAW_STACK_END);
	if (size > RAW_STACK_BYTES)
		size = RAW_STACK_BYTES;
	address_raw(box, sample, end, key, now, kernel, size);
	box->at = sampled_here(s);
	sent = send_raw(box, size);
	use_allowance(sample->pid, end, !key, now, begin + sent);
	if (!sent) {
		count(counters_in(s), COUNT_UNSENT_RING_FULL, 1);
		return 1;
	}
	count(counters_in(s), COUNT_DEFERRED, 1);
	return 0;
}

/*
 * Sends the sample with its unwalked stack; its sums come under `key`, unless that is 0. Returns not 0 if it was not
 * sent: the caller then records the stack as far as it was walked. Not inlined, because few samples come here.
 */
static __noinline int defer_walk(void *ctx, struct sampler_state *s, struct sample *sample, u32 end, u64 key)
{
	u64 now = bpf_ktime_get_ns();
	struct rawbox *box;
	u32 refused;
	int failed;

	refused = has_room_for_raw() ? refused_by_allowance(sample->pid, end, !key, now) : COUNT_UNSENT_RING_FULL;
	if (refused) {
		count(counters_in(s), refused, 1);
		return 1;
	}
	box = claim_rawbox(s, sample->slot);
	if (!box) {
		/* So many CPUs send stacks at this moment. */
		count(counters_in(s), COUNT_UNSENT_OF_MACHINE, 1);
		return 1;
	}
	failed = send_in_box(ctx, s, box, sample, end, key, now);
	release(&box->claims);
	return failed;
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

	if (may_be_walked_later(&s->walk, end)) {
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
