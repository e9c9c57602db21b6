/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Iterators over all threads: at the begin and when a target is added, at the seams and at the end of a capture.
 * Off-CPU time counts from the begin, also for threads that are off their CPU then. Their registers are sent to user
 * space, which reads their stacks and then asks which of these threads have not run meanwhile: only their stacks are
 * still the same. Stretches that are open at the end are added with their time so far.
 */
#ifndef PERF_AGENT_THREAD_ITER_H
#define PERF_AGENT_THREAD_ITER_H

#include "offcpu.h"
#include "sched_stats.h"

#define ATTEMPTS 3

static __always_inline u64 followed_from(void)
{
	return control_word(CONTROL_FOLLOWED_FROM_NS);
}

static __always_inline bool is_followed(struct thread *t)
{
	return whole_system || is_recorded(bpf_map_lookup_elem(&procs, &t->pid));
}

/* The key of the stretch that was open at the begin; it does not depend on the state of the thread. */
static __always_inline u64 key_asleep(struct thread *t)
{
	return own_key(t->pid, t->tid, followed_from(), OFF_BLOCKED);
}

/*
 * Whether a thread that is still `on_cpu` has left its CPU. The kernel clears that field at the end of a switch, after
 * the tracepoint: a thread entered as running in between would come back without a switch that this program saw. False
 * on kernels without CONFIG_FAIR_GROUP_SCHED.
 */
static __always_inline bool has_left(struct task_struct *task)
{
	struct task_struct *runs;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return false;
	runs = BPF_CORE_READ(task, se.cfs_rq, rq, curr);
	return runs && runs != task;
}

/* Writes what a thread does now into its record. Returns its state if that state is recorded, else OFF_NONE. */
static __always_inline u32 look_at(struct task_struct *task, struct thread *t)
{
	u32 on_cpu = bpf_core_field_exists(task->on_cpu) ? task->on_cpu : 0;
	u32 off = on_cpu && !has_left(task) ? OFF_NONE : off_state_of(state_of(task));

	t->state = off;
	t->since = followed_from();
	t->key = 0;
	t->runnable = off == OFF_PREEMPTED ? t->since : 0;
	t->ran = task->se.sum_exec_runtime;
	t->flags |= THREAD_CUT;
	if (off == OFF_NONE)
		return OFF_NONE;
	t->flags |= THREAD_ASLEEP;
	if (!state_is(walked_states, off))
		return OFF_NONE;
	t->key = key_asleep(t);
	if (locks && off == OFF_BLOCKED)
		note_lock_asleep(task, t);
	return off;
}

/* Writes the thread and its user registers as a message of an unwalked stack, but without the bytes of the stack. */
static __always_inline void write_asleep(struct seq_file *seq, struct task_struct *task, struct thread *t, u32 off,
					 u32 slot)
{
	struct sample sample = {
	    .slot = slot, .pid = t->pid, .tid = t->tid, .event = EVENT_SCHEDULER, .state = off, .task = task};
	struct rawbox *box = rawbox_at(sample.slot);
	struct proc *proc = bpf_map_lookup_elem(&procs, &t->pid);
	struct walk *w = walk_at(sample.slot);
	struct user_registers user = {};
	u32 end = WALK_TABLE_NOT_READY;
	long kernel = 0;

	if (!box || !w)
		return;
	if (proc) {
		sample.exec_id = proc->exec_id;
		sample.flags = proc->flags;
	}
	if (registers_of_task(task, &user)) {
		w->start_regs = user.at;
		if (copy_registers(sample.slot))
			end = WALK_NO_REGISTERS;
	} else {
		end = without_registers(task, &user);
	}
	box->registers.pc = user.pc;
	if (takes_kernel_stack(&sample) && bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_task_stack))
		kernel = bpf_get_task_stack(task, box->kernel, sizeof(box->kernel), 0);
	address_raw(box, &sample, end, key_asleep(t), bpf_ktime_get_ns(), kernel, 0);
	kernel = box->kernel_head.count;
	if (kernel > MAX_KERNEL_FRAMES)
		kernel = MAX_KERNEL_FRAMES;
	bpf_seq_write(seq, box, __builtin_offsetof(struct rawbox, kernel) + kernel * 8);
}

static __always_inline void report_asleep(struct seq_file *seq, struct task_struct *task, struct thread *t, u32 off)
{
	struct sampler_state *s;
	struct rawbox *box;
	u32 slot;

	s = claim_slot(&slot);
	if (!s) {
		count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
		return;
	}
	box = claim_rawbox(s, slot);
	if (box) {
		write_asleep(seq, task, t, off, slot);
		release(&box->claims);
	} else {
		count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
	}
	release_slot(s);
}

/* Notes what a thread does that may hold locks. */
static __always_inline void note_thread(struct task_struct *task, struct thread *t)
{
	struct sampler_state *s;
	u32 slot;

	s = claim_slot(&slot);
	if (!s) {
		count_alone(EVENT_SCHEDULER, COUNT_OWNERS_LOST, 1);
		return;
	}
	begin_lock_run(s, t, task, t->state);
	note_first_holder(slot);
	t->own_name = s->lock_run.own_name;
	release_slot(s);
}

SEC("iter/task")
int threads_at_begin(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread first = {}, *t = NULL;
	u32 i, off, asleep = OFF_NONE;
	u64 switches;

	if (!task || task->exit_state)
		return 0;
	if (!thread_numbers(task, &first) || !is_followed(&first))
		return 0;
	/* Followed since it was made, or since another target was added. The kernel runs this again for a thread whose
	 * message did not fit into its buffer; that one is reported then. */
	t = thread_of(task);
	if (t && t->born != followed_from())
		return 0;
	t = NULL;
	first.born = followed_from();
	first.id = thread_id(&first);
	if (has_filters() && !passes_filters(task, first.tid)) {
		/* It may be moved into the chosen control group later. */
		if (!enter_thread(task, &first))
			count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
		return 0;
	}
	for (i = 0; i < ATTEMPTS; i++) {
		switches = task->nvcsw + task->nivcsw;
		off = look_at(task, t ? t : &first);
		if (off != OFF_NONE)
			asleep = off;
		if (!t)
			t = enter_thread(task, &first);
		if (!t) {
			count_alone(EVENT_SCHEDULER, COUNT_THREADS_LOST, 1);
			return 0;
		}
		/* From here on its switches are seen; was there one between the look and the entry? */
		if (switches == task->nvcsw + task->nivcsw || t->since != followed_from())
			break;
	}
	if (locks)
		note_thread(task, t);
	/* Also one that runs by now: its time is in the sums of that key. */
	if (asleep != OFF_NONE)
		report_asleep(ctx->meta->seq, task, &first, asleep);
	return 0;
}

SEC("iter/task")
int threads_still_asleep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct message message = {.kind = MESSAGE_STILL_ASLEEP};
	struct thread *t;

	if (!task)
		return 0;
	t = thread_of(task);
	if (!t || !(t->flags & THREAD_ASLEEP))
		return 0;
	message.pid = t->pid;
	message.tid = t->tid;
	message.hash = t->key;
	bpf_seq_write(ctx->meta->seq, &message, sizeof(message));
	return 0;
}

/* Writes the seam record of a thread: the parts of its present stretch and of its life that lie before the seam. */
static __always_inline void split_at_seam(struct sampler_state *s, struct task_struct *task, struct thread *t)
{
	struct thread now = *t;
	bool split = is_split(s, &now);
	u64 key = now.key;

	if (!s->gathers || !now.since)
		return;
	if (now.state == OFF_NONE)
		key = split && wall_clock ? on_cpu_key(s, task, &now) : 0;
	else if (is_first_wait(&now))
		key = split ? first_wait_key(s, task, &now) : 0;
	open_lock_at_seam(s, &now, task);
	/* If the stretch has ended meanwhile, the program that ended it has written the seam record. */
	barrier();
	if (t->since == now.since || now.since >= s->seam_ns)
		write_seam_record(s, &now, key, BPF_NOEXIST);
}

/*
 * Begins to account the present stretch of an iterator's thread. Gives a claimed sampler state, or NULL: no stretch of
 * the thread is open, or no state is free. The latter is counted under `lost`.
 */
static __always_inline struct sampler_state *begin_open_stretch(struct task_struct *task, struct thread **t, u32 lost)
{
	struct sampler_state *s;
	u32 slot;

	if (!task)
		return NULL;
	*t = chosen_thread_of(task);
	if (!*t || !(*t)->since)
		return NULL;
	s = claim_slot(&slot);
	if (s)
		begin_run_of_threads(s, slot, bpf_ktime_get_ns());
	else
		count_alone(EVENT_SCHEDULER, lost, 1);
	return s;
}

SEC("iter/task")
int threads_at_seam(struct bpf_iter__task *ctx)
{
	struct sampler_state *s;
	struct thread *t;

	s = begin_open_stretch(ctx->task, &t, COUNT_SEAMS_LOST);
	if (!s)
		return 0;
	split_at_seam(s, ctx->task, t);
	release_slot(s);
	return 0;
}

/* Adds the present stretch of a thread up to the end of the capture. */
static __always_inline void end_at(struct sampler_state *s, struct task_struct *task, struct thread *t, u64 end)
{
	/* Its last switch came after the end, but before the programs were gone. */
	if (end < t->since)
		end = t->since;
	if (t->state != OFF_NONE)
		end_interval(s, task, t, end);
	else if (wall_clock)
		add_on_cpu_time(s, task, t, end);
	/* No other program writes there any more. */
	if (t->state == OFF_NONE && sched_stats)
		add_slice(counters_in(s), t, end - t->since, false);
	add_life(s, t, end);
	t->since = 0;
}

SEC("iter/task")
int threads_at_end(struct bpf_iter__task *ctx)
{
	struct sampler_state *s;
	struct thread *t;

	s = begin_open_stretch(ctx->task, &t, COUNT_LOST_BUSY);
	if (!s)
		return 0;
	end_at(s, ctx->task, t, control_word(CONTROL_FOLLOWED_TO_NS));
	release_slot(s);
	return 0;
}

#endif
