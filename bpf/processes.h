/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which processes are recorded, followed in the kernel: a child of a recorded process is recorded from its first
 * instruction, with its parent's mappings, which it shares, unless the user leaves children out. exec and exit end
 * that.
 */
#ifndef PERF_AGENT_PROCESSES_H
#define PERF_AGENT_PROCESSES_H

#include "life.h"

/* Asks user space to read the mappings of a process. Not 0: that is lost. */
static __noinline int ask_for_mappings(struct counters *c, u32 pid, u32 flags)
{
	struct message message = {.kind = MESSAGE_PROC, .pid = pid, .state = flags & (PROC_WAKER | PROC_NEW)};

	if (!bpf_ringbuf_output(&ring, &message, sizeof(message), BPF_RB_NO_WAKEUP))
		return 0;
	count(c, COUNT_REQUESTS_LOST, 1);
	return 1;
}

/* A walk left the known mappings: ask, once, until user space has answered. */
static __always_inline void mappings_are_stale(struct counters *c, u32 pid)
{
	struct proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (!proc || proc->flags & PROC_ASKED)
		return;
	proc->flags |= PROC_ASKED;
	if (ask_for_mappings(c, pid, proc->flags))
		proc->flags &= ~PROC_ASKED;
}

/*
 * Enters a process at its first sight: while the whole system is recorded, or with PROC_WAKER because it wakes threads.
 * NULL: that fails, and with `is_sample` a sample is lost. A function of its own, because the record takes room on the
 * stack.
 */
static __noinline struct proc *adopt_process(struct counters *c, u32 pid, u32 flags, u32 is_sample)
{
	struct proc proc = {
	    .flags = PROC_NEW | PROC_ASKED | flags, .exec_id = bpf_ktime_get_ns(), .epoch = epoch_now()};
	long error = bpf_map_update_elem(&procs, &pid, &proc, BPF_NOEXIST);
	struct proc *known;
	int lost = 0;

	if (!error) {
		procs_changed();
		lost = ask_for_mappings(c, pid, proc.flags);
	}
	known = bpf_map_lookup_elem(&procs, &pid);
	if (known && lost)
		known->flags &= ~PROC_ASKED;
	if (!known && is_sample)
		count(c, cause_of(error, COUNT_LOST_NO_MEMORY), 1);
	return known;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_pid = parent->tgid, child_pid = child->tgid;
	bool follow = whole_system || control_word(CONTROL_TELLS_ALL_LIVES);
	struct proc *known, proc;
	u64 now;

	if (parent_pid == child_pid)
		return 0;
	if (pid_namespace) {
		parent_pid = number_in_namespace(parent->group_leader);
		child_pid = number_in_namespace(child);
	}
	if (!child_pid)
		return 0;
	now = bpf_ktime_get_ns();
	known = bpf_map_lookup_elem(&procs, &parent_pid);
	if (known && !(known->flags & PROC_WAKER) && !without_children) {
		proc = *known;
		proc.exec_id = now;
		proc.epoch = epoch_now();
		if (bpf_map_update_elem(&procs, &child_pid, &proc, BPF_ANY))
			count_alone(EVENT_CLOCK, COUNT_PROCS_LOST, 1);
		else
			follow = true;
		procs_changed();
	}
	if (follow)
		send_life(LIFE_FORK, child_pid, parent_pid, now, child->comm);
	return 0;
}

/*
 * The current process has a new program, and its mappings are gone. A sample may interrupt this function. User space
 * must know the program before it gets a stack with the exec_id of the program, so the record is sent first.
 */
static __always_inline int begin_program(const char *comm)
{
	u64 now = bpf_ktime_get_ns();
	struct proc *proc;
	u32 pid, tid;

	if (!current_numbers(&pid, &tid) || !pid)
		return 0;
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc && !whole_system)
		return 0;
	if (proc) {
		proc->count = 0;
		proc->python = 0;
		proc->flags = PROC_NEW | (proc->flags & PROC_KEPT_BY_EXEC);
		proc->generation = 0; /* user space gives others; the next one may be another process's */
		procs_changed();
	}
	send_life(LIFE_EXEC, pid, 0, now, comm);
	/* Again: user space may have replaced the record, as it has learned of the exec. */
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (proc && proc->exec_id < now) {
		proc->exec_id = now;
		procs_changed();
	}
	return 0;
}

/*
 * Exec names the process when the old memory is gone and before the new program is mapped (begin_new_exec, fs/exec.c).
 * sched_process_exec comes after those mappings. A raw tracepoint, because older kernels refuse typed arguments that
 * are strings.
 */
SEC("raw_tp/task_rename")
int BPF_PROG(process_renamed, struct task_struct *task, const char *comm)
{
	u32 pid = BPF_CORE_READ(task, tgid);
	struct proc *proc;

	if (bpf_get_current_task() == (u64)task && in_exec())
		return begin_program(comm);
	if ((u32)BPF_CORE_READ(task, pid) != pid)
		return 0;
	if (pid_namespace)
		pid = number_in_namespace(task);
	/* A process that no sample has met is read, with its name, when one does. */
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (proc && !same_name(task, comm))
		tell_name(pid, comm);
	return 0;
}

/* For kernels whose tasks do not tell that they are in exec. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	if (bpf_core_field_exists(task->in_execve))
		return 0;
	return begin_program(task->comm);
}

/* The process that is the parent now; PID_OUTSIDE if it has no number in the agent's PID namespace. */
static __noinline u32 parent_of(struct task_struct *task)
{
	struct task_struct *parent = BPF_CORE_READ(task, real_parent, group_leader);

	return pid_namespace ? number_in_namespace(parent) : (u32)BPF_CORE_READ(parent, tgid);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	bool tells = control_word(CONTROL_TELLS_ALL_LIVES), follow = whole_system || tells;
	u32 pid = task->tgid, parent = 0;

	/* do_exit (kernel/exit.c) has taken this thread off `live` already. */
	if (task->signal->live.counter)
		return 0;
	if (pid_namespace)
		pid = number_in_namespace(task->group_leader);
	if (!pid)
		return 0;
	if (!bpf_map_delete_elem(&procs, &pid)) {
		procs_changed();
		follow = true;
	}
	if (!follow)
		return 0;
	forget_names(pid);
	if (tells)
		parent = parent_of(task->group_leader);
	send_life(LIFE_EXIT, pid, parent, bpf_ktime_get_ns(), task->group_leader->comm);
	return 0;
}

#endif
