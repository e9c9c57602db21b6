/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Who wakes a thread: process, thread and stack of the task that runs when it is woken. */
#ifndef PERF_AGENT_WAKERS_H
#define PERF_AGENT_WAKERS_H

#include "kernel_wait.h"
#include "offcpu.h"

/* Stores the stack pointer of the kernel in w->want. A function of its own, whose frame is too small for a private
 * stack (6.13).
 */
static __noinline int note_stack_pointer(struct walk *w)
{
	asm volatile("*(u64 *)(%[w] + %[place]) = r10"
		     :
		     : [w] "r"(w), [place] "i"(__builtin_offsetof(struct walk, want))
		     : "memory");
	return 0;
}

enum waker_context {
	OF_TASK,
	OF_INTERRUPT, /* an interrupt, which has nothing to do with the current task */
	OF_EITHER, /* an interrupt, or work that a system call of the task has put off, as the loopback device does */
};

/* An interrupt has a stack of its own, unless it came in user mode; work that was put off has the same one. */
static __always_inline enum waker_context context_of(struct walk *w)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 stack = (u64)BPF_CORE_READ(task, stack);
	struct pt_regs *regs = (void *)(stack + KERNEL_STACK_SIZE - REGS_BYTES);
	bool apart;

	note_stack_pointer(w);
	apart = w->want - stack >= KERNEL_STACK_SIZE;
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return apart ? OF_INTERRUPT : OF_TASK;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (REGS_ENTRY_PROBED(regs) == ENTRY_BY_INTERRUPT)
		return OF_INTERRUPT;
	return apart ? OF_EITHER : OF_TASK;
}

/* Makes the stack of a waker known to user space. It is no sample: only the waker is lost. */
static __always_inline bool make_waker_known(struct sampler_state *s, struct sample *sample, u64 key, u32 end,
					     u32 user_frames)
{
	if (find_total(side_of(s), key))
		return true;
	if (send_stack(sample, key, end, user_frames)) {
		count(counters_in(s), COUNT_STACKS_SENT, 1);
		enter_sums(side_of(s), key, 0, 0, 0);
		return true;
	}
	count(counters_in(s), COUNT_WAKERS_LOST, 1);
	return false;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(thread_waking, struct task_struct *task)
{
	struct sample sample = {.slot = slot_of(CONTEXT_HARDIRQ), .event = EVENT_SCHEDULER, .state = STATE_WAKER};
	u32 end = WALK_NONE, frames = 0;
	struct thread *t = chosen_thread_of(task);
	u64 key, hash = seed, lock = 0;
	enum waker_context context;
	struct kernel_wait *wait = NULL;
	struct sampler_state *s;
	struct counters *c;
	struct proc *proc;

	/*
	 * The state of the thread does not matter: it may be on its way to sleep. A thread that wakes itself goes on
	 * instead of sleeping; interrupts are on then, and could interrupt the walk.
	 */
	if (!t || bpf_get_current_task() == (u64)task)
		return 0;
	if (locks) {
		lock = futex_waited_for(task);
		if (kernel_locks)
			wait = kernel_wait_of(task->pid);
		if (!lock && !wait && !wakers)
			return 0;
	}
	s = state_at(sample.slot);
	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	begin_run(s, sample.slot, EVENT_SCHEDULER);
	c = counters_in(s);
	context = context_of(&s->walk);
	if (context == OF_EITHER)
		sample.state = STATE_WAKER_IN_SOFTIRQ;
	/* pid and tid 0 stand for an interrupt: the current thread has nothing to do with the wake-up. */
	if (context == OF_INTERRUPT || !current_numbers(&sample.pid, &sample.tid)) {
		sample.pid = 0;
		sample.tid = 0;
	} else if (has_no_memory()) {
		end = without_memory((void *)bpf_get_current_task());
	} else {
		proc = bpf_map_lookup_elem(&procs, &sample.pid);
		if (!proc && sample.pid)
			proc = adopt_process(c, sample.pid, whole_system ? 0 : PROC_WAKER, false);
		if (proc) {
			struct proc known = *proc;

			note_process(proc);

			sample.exec_id = known.exec_id;
			end = walk_current(s, CONTEXT_HARDIRQ, &known, &sample);
			hash = s->walk.hash;
			frames = s->walk.total;
		} else {
			end = WALK_NO_REGISTERS;
			if (sample.pid)
				count(c, COUNT_PROCS_LOST, 1);
		}
	}
	if (takes_kernel_stack(&sample) || context == OF_EITHER)
		take_kernel_stack(ctx, &sample);
	key = key_of(&sample, hash, end);
	/* A waker of an earlier wake-up does not count. */
	t->waker = make_waker_known(s, &sample, key, end, frames) ? key : 0;
	end_walk(s, &sample);
	t->released = lock && sample.tid && is_in_futex(lock);
	if (wait)
		wait->waker = sample.tid ? t->waker : 0;
	return 0;
}

#endif
