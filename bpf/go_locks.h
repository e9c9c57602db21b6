/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Waits of goroutines. A goroutine that has to wait gives its thread to another one, so no thread leaves its CPU for
 * it. It begins to wait where a function of Go's runtime calls `gopark`, and ends where another goroutine, or a timer,
 * calls `ready` with it. Probes are at these calls, and at the entry of `ready`; there is none at a return, which Go's
 * moving stacks do not survive.
 *
 * At the call the current goroutine is in r14, and the first argument of the function that calls is in its home on the
 * stack, above the return address: of semacquire1 the address of the semaphore, of chansend and chanrecv that of the
 * channel. `ready` gets the goroutine as its first argument, in rax. All programs are at probes of programs: see
 * probe.h.
 */
#ifndef PERF_AGENT_GO_LOCKS_H
#define PERF_AGENT_GO_LOCKS_H

#include "kernel_wait.h"
#include "probe.h"

/* A goroutine by the address of its structure, which is never freed. */
struct goroutine {
	u64 g;
	u32 pid; /* in the first PID namespace */
	u32 exec;
};

struct go_wait {
	u64 lock;
	u64 since;
	u64 stack; /* key of the stack of the goroutine; 0: it is lost */
	u32 pid;
	u32 tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct goroutine);
	__type(value, struct go_wait);
} go_waits SEC(".maps");

/* The first argument of the function whose frame this is, in its home. 0: it cannot be read. */
static __always_inline u64 first_argument_at_home(struct pt_regs *ctx)
{
	u64 word = 0;

	/* Behind the saved frame pointer and the return address. */
	if (read_user(&word, sizeof(word), REGS_FP(ctx) + 16))
		return 0;
	return word;
}

static __always_inline void name_goroutine(struct goroutine *of, u64 g)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	of->g = g;
	of->pid = bpf_get_current_pid_tgid() >> 32;
	of->exec = (u32)BPF_CORE_READ(task, self_exec_id);
}

/* The state of this CPU, claimed. NULL: another program has it, and the wait is lost. */
static __always_inline struct sampler_state *claim_for_goroutine(u32 slot)
{
	struct sampler_state *s = state_at(slot);

	if (s && claim(&s->claims))
		return s;
	count_alone(EVENT_SCHEDULER, COUNT_LOCKS_LOST, 1);
	return NULL;
}

/* A function of its own: its stack is free again before the next one. */
static __noinline int note_go_stack(void *ctx, struct go_wait *wait)
{
	struct sample sample = {.slot = slot_of(CONTEXT_PROBE),
				.pid = wait->pid,
				.tid = wait->tid,
				.event = EVENT_SCHEDULER,
				.state = OFF_BLOCKED};
	struct sampler_state *s = claim_for_goroutine(sample.slot);

	if (!s)
		return 1;
	begin_run(s, sample.slot, EVENT_SCHEDULER);
	wait->stack = waiting_stack(ctx, s, CONTEXT_PROBE, &sample, wait->since);
	release_slot(s);
	return 0;
}

/* The same: what it needs is not on the stack during the walk. */
static __noinline int keep_go_wait(struct go_wait *wait, u64 g)
{
	struct goroutine own = {};

	name_goroutine(&own, g);
	if (bpf_map_update_elem(&go_waits, &own, wait, BPF_ANY))
		count_alone(EVENT_SCHEDULER, COUNT_LOCKS_LOST, 1);
	return 0;
}

/* The same. Returns not 0 if the wait is not recorded. */
static __noinline int begin_go_wait(struct go_wait *wait)
{
	u32 pid, tid;

	if (!is_current_recorded(&pid, &tid))
		return 1;
	count_alone(EVENT_SCHEDULER, COUNT_GO_HITS, 1);
	wait->pid = pid;
	wait->tid = tid;
	wait->since = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int park(struct pt_regs *ctx, u64 lock)
{
	struct go_wait wait = {.lock = lock};

	if (begin_go_wait(&wait) || note_go_stack(ctx, &wait))
		return 0;
	return keep_go_wait(&wait, REGS_GOROUTINE(ctx));
}

/* The goroutine waits for the semaphore or channel that is the first argument. */
static __noinline int park_for_first(struct pt_regs *ctx)
{
	return park(ctx, first_argument_at_home(ctx));
}

/* The goroutine waits for one of several channels, or for nothing. */
static __noinline int park_for_any(struct pt_regs *ctx)
{
	return park(ctx, 0);
}

/* The current goroutine ends the wait of another one. */
static __noinline int end_go_wait(void *ctx, struct go_wait *wait)
{
	struct sample sample = {.slot = slot_of(CONTEXT_PROBE), .event = EVENT_SCHEDULER, .state = STATE_WAKER};
	struct sampler_state *s = claim_for_goroutine(sample.slot);
	u32 end = WALK_NO_REGISTERS;
	struct proc proc = {}, *known;
	struct lock_run *l;
	u64 key;

	if (!s)
		return 0;
	begin_run(s, sample.slot, EVENT_SCHEDULER);
	l = &s->lock_run;
	*l = (struct lock_run){.stack = wait->stack,
			       .lock = wait->lock,
			       .since = wait->since,
			       .now = bpf_ktime_get_ns(),
			       .pid = wait->pid,
			       .tid = wait->tid,
			       .kind = LOCK_GO,
			       .released = 1};
	sample.pid = wait->pid;
	sample.tid = (u32)bpf_get_current_pid_tgid();
	known = bpf_map_lookup_elem(&procs, &sample.pid);
	if (known) {
		proc = *known;
		sample.exec_id = proc.exec_id;
		end = walk_current(s, CONTEXT_PROBE, &proc, &sample);
		key = key_of(&sample, s->walk.hash, end);
		if (make_waker_known(s, &sample, key, end, s->walk.total))
			l->waker = key;
		end_walk(s, &sample);
	}
	if (end_lock_wait(sample.slot))
		add_lock_length(sample.slot);
	release_slot(s);
	return 0;
}

/* Takes the wait of a goroutine. Returns not 0 if none is known. What it needs is not on the stack during the walk. */
static __noinline int take_go_wait(struct go_wait *wait, u64 g)
{
	struct goroutine readied = {};
	struct go_wait *known;
	u32 pid, tid;

	if (!is_current_recorded(&pid, &tid))
		return 1;
	count_alone(EVENT_SCHEDULER, COUNT_GO_HITS, 1);
	name_goroutine(&readied, g);
	known = bpf_map_lookup_elem(&go_waits, &readied);
	if (!known)
		return 1;
	*wait = *known;
	/* Only once: several may try to end the wait of one goroutine, and the runtime lets one. */
	return bpf_map_delete_elem(&go_waits, &readied) != 0;
}

static __noinline int ready_goroutine(struct pt_regs *ctx)
{
	struct go_wait wait = {};

	if (!take_go_wait(&wait, REGS_GO_ARG1(ctx)))
		end_go_wait(ctx, &wait);
	return 0;
}

PROBE_PROGRAM(go_park_first, park_for_first)
PROBE_PROGRAM(go_park_any, park_for_any)
PROBE_PROGRAM(go_ready, ready_goroutine)

#endif
