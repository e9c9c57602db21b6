/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Allocations: programs at the entries of functions of an allocator, at their returns, and at the functions that free.
 *
 * A return is seen by a return probe, or by probes at the instructions of the function that return. The first replaces
 * the return address, across which no exception passes, so it is set only on functions that no exception leaves.
 *
 * A call that allocates is remembered from its entry, where the stack is walked, to its return, which tells the
 * address. Between the two its thread may enter such a function again: an allocator calls itself. Then the outer call
 * counts, because the program sees its address. An object is removed from the table of live objects where the function
 * that frees it begins: its address may be given out again before that function returns.
 *
 * All programs are at probes of programs: see probe.h.
 */
#ifndef PERF_AGENT_HEAP_H
#define PERF_AGENT_HEAP_H

#include "probe.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct object_id);
	__type(value, struct object);
} live_objects SEC(".maps");

/* A call that allocates and has not returned yet. */
struct heap_call {
	u64 sp;	   /* at its entry */
	u64 key;   /* of the sums of its stack */
	u64 size;  /* bytes that it asks for */
	u64 place; /* where it writes the address, if it does not return that */
	/* the one object that it replaces; address 0: none that was recorded */
	u64 old_address;
	u64 old_key;
	u64 old_size;
	u32 pid;
	u32 exec;
	/* The lowest bits of addresses: there is no space for more on the stack of a program. */
	u32 caller;	     /* where it returns to; 0: not known */
	u32 entry : 31;	     /* the probed instruction */
	u32 walks_later : 1; /* user space walks its stack and counts it */
};

/* By the number of the thread in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct heap_call);
} heap_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct heap_counts);
} heap_counts SEC(".maps");

/* A call inside of another one is at most so far away from it on the stack. A call that is further away was left by a
 * jump. */
#define HEAP_CALL_REACH (64 << 10)

static __always_inline void count_heap(u32 which, u64 n)
{
	u32 zero = 0;
	struct heap_counts *counts = bpf_map_lookup_elem(&heap_counts, &zero);

	if (counts && which < HEAP_COUNTS)
		__sync_fetch_and_add(&counts->at[which], n);
}

static __always_inline u32 exec_number(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return (u32)BPF_CORE_READ(task, self_exec_id);
}

/* The return address at the entry of a function. */
static __always_inline u64 return_address(u64 sp)
{
	u64 address = 0;

#if RETURN_POPS
	if (read_user(&address, sizeof(address), sp))
		return 0;
#endif
	return address;
}

/* Whether the return address of a call is still in its place, or that of a return probe is. Code that was called after
 * the call was left by an exception may have written over it. */
static __always_inline bool still_returns(struct heap_call *call)
{
	u64 address;

	if (!call->caller)
		return true;
	address = return_address(call->sp);
	return (u32)address == call->caller || (address && address == return_page());
}

/* The number of programs that a process has executed is in these bits of the number of its memory. */
#define EXECS_SHIFT 48

/*
 * The object at an address in the memory of the current thread. Processes that share a memory have executed equally
 * many programs: an exec begins another memory.
 */
static __always_inline struct object_id own_object(u64 address)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct object_id id = {.address = address};

	id.memory = MEMORY_NUMBER(mm) ^ (u64)exec_number() << EXECS_SHIFT;
	return id;
}

/* Whether the place at `sp` is inside of a call that goes on. */
static __always_inline bool is_inside(struct heap_call *call, u64 sp, u32 exec)
{
	return call && call->exec == exec && sp < call->sp && call->sp - sp < HEAP_CALL_REACH && still_returns(call);
}

/* Adds objects to the sums of a key. Not 0: they are lost, and counted. */
static __noinline int add_objects(u64 key, u64 number, u64 size)
{
	u32 side = side_in_use(CONTROL_SIDE_CHANGES);
	struct total *total = find_total(side, key);
	long error;

	if (!total) {
		error = enter_values(side, key, SCHEMA_HEAP, number, size, 0);
		if (!error)
			return 0;
		total = find_total(side, key);
		if (!total) {
			count_alone_on(side, EVENT_CLOCK, cause_of(error, COUNT_LOST_MAP_FULL), 1);
			return 1;
		}
	}
	add_values(total, SCHEMA_HEAP, number, size, 0);
	return 0;
}

/* Objects of a key do not live any more. */
static __always_inline void add_freed_of(u64 key, u64 number, u64 size)
{
	add_objects(key_in(key, kind_of(EVENT_CLOCK, STATE_FREED)), number, size);
}

static __always_inline void add_freed(struct object *object)
{
	add_freed_of(object->key, object->number, object->size);
}

/* Takes an object out of the table of live objects. False: it is not there. */
static __always_inline bool remove_object(struct object_id *id, struct object *object)
{
	struct object *known = bpf_map_lookup_elem(&live_objects, id);

	if (!known)
		return false;
	*object = *known;
	if (bpf_map_delete_elem(&live_objects, id))
		return false;
	count_heap(HEAP_REMOVED, 1);
	return true;
}

/* Enters an object. What had its address was freed unseen. An object that does not fit counts as freed, so that nothing
 * is told to be in use that may not be. */
static __noinline int enter_object(struct object_id *id, struct object *object)
{
	struct object *known = bpf_map_lookup_elem(&live_objects, id), before;

	if (known) {
		before = *known;
		add_freed(&before);
		count_heap(HEAP_GIVEN_AGAIN, 1);
		*known = *object;
		return 0;
	}
	if (!bpf_map_update_elem(&live_objects, id, object, BPF_NOEXIST)) {
		count_heap(HEAP_ENTERED, 1);
		return 0;
	}
	add_freed(object);
	count_heap(HEAP_UNTRACKED, 1);
	count_heap(HEAP_UNTRACKED_BYTES, object->size);
	return 0;
}

/* The key of the sums of the stack just walked, which is made known to user space. 0: it is lost, and counted. */
static __always_inline u64 make_key(void *ctx, struct sampler_state *s, struct sample *sample, u32 end,
				    struct heap_call *call)
{
	struct counters *c = counters_in(s);
	u64 key;
	long error;

	if (may_be_walked_later(&s->walk, end)) {
		key = key_in(own_key(sample->pid, sample->tid, bpf_ktime_get_ns(), OFF_NONE),
			     kind_of(EVENT_CLOCK, OFF_NONE));
		if (!defer_walk(ctx, s, sample, end, key)) {
			call->walks_later = 1;
			return key;
		}
	}
	count(c, COUNT_WALKS + end, 1);
	key = key_of(sample, s->walk.hash, end);
	if (find_total(side_of(s), key))
		return key;
	if (!send_stack(sample, key, end, s->walk.total)) {
		count(c, COUNT_LOST_RING_FULL, 1);
		return 0;
	}
	count(c, COUNT_STACKS_SENT, 1);
	error = enter_sums(side_of(s), key, 0, 0, 0);
	if (!error || find_total(side_of(s), key))
		return key;
	count(c, cause_of(error, COUNT_LOST_MAP_FULL), 1);
	return 0;
}

/* Walks the stack of the current thread in the state of this CPU, which is claimed. */
static __always_inline u64 walk_for_key(void *ctx, struct sampler_state *s, struct heap_call *call, u32 tid)
{
	struct sample sample = {.slot = slot_of(CONTEXT_PROBE), .pid = call->pid, .tid = tid, .event = EVENT_CLOCK};
	struct cached_proc *cached = cached_proc(s, call->pid);
	struct proc proc = {};
	u32 end;
	u64 key;

	/* Another process with the same code may have hit the probe. */
	if (!cached->known || cached->proc.flags & PROC_WAKER)
		return 0;
	if (has_filters() && !passes_filters((void *)bpf_get_current_task(), tid))
		return 0;
	begin_run(s, sample.slot, EVENT_CLOCK);
	proc = cached->proc;
	sample.exec_id = proc.exec_id;
	end = walk_current(s, CONTEXT_PROBE, &proc, &sample);
	key = make_key(ctx, s, &sample, end, call);
	end_walk(s, &sample);
	return key;
}

/* A key as above. */
static __always_inline u64 key_of_call(void *ctx, struct heap_call *call, u32 tid)
{
	struct sampler_state *s = state_at(slot_of(CONTEXT_PROBE));
	u64 key;

	if (!s)
		return 0; /* unreachable: sized by the number of possible CPUs */
	if (!claim(&s->claims)) {
		count_alone(EVENT_CLOCK, COUNT_LOST_BUSY, 1);
		return 0;
	}
	key = walk_for_key(ctx, s, call, tid);
	release_slot(s);
	return key;
}

/* The call gives back the object at an address. A function of its own: its stack is free again before the walk. */
static __noinline int give_back_in_call(struct heap_call *call, u64 address)
{
	struct object_id id = own_object(address);
	struct object old;

	if (!remove_object(&id, &old)) {
		count_heap(HEAP_UNKNOWN, 1);
		return 0;
	}
	call->old_address = address;
	call->old_key = old.key;
	call->old_size = old.size;
	return 0;
}

/* A call ends without a return. An object that it was to replace is not told to be in use. */
static __always_inline void give_up(struct heap_call *call)
{
	count_heap(HEAP_UNRETURNED, 1);
	if (call->old_address)
		add_freed_of(call->old_key, 1, call->old_size);
}

/*
 * What the thread's last call means for one that begins. Not 0: the new call is inside of that one, which counts.
 * `old`: the object that the new call replaces. A function of its own, as above.
 */
static __noinline int leave_last_call(struct heap_call *call, u64 old)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct heap_call *last = bpf_map_lookup_elem(&heap_calls, &thread);

	if (is_inside(last, call->sp, call->exec))
		return 1;
	/* A function that ends by jumping to another one of the allocator: its object goes on to that one. */
	if (last && last->exec == call->exec && last->sp == call->sp && last->entry != call->entry) {
		call->old_address = last->old_address;
		call->old_key = last->old_key;
		call->old_size = last->old_size;
	} else if (last) {
		give_up(last);
	}
	/* What was left must not pass for the new call at its return, if that is not entered. */
	if (last)
		bpf_map_delete_elem(&heap_calls, &thread);
	if (old && !call->old_address)
		give_back_in_call(call, old);
	call->caller = (u32)return_address(call->sp);
	return 0;
}

/* A call of a function that allocates begins. `old`: the object that it replaces. */
static __always_inline int begin_call(struct pt_regs *ctx, u64 size, u64 old, u64 place)
{
	struct heap_call call = {.sp = REGS_SP(ctx), .entry = (u32)REGS_PC(ctx), .size = size, .place = place};
	u64 thread = bpf_get_current_pid_tgid();
	u32 tid;

	if (!current_numbers(&call.pid, &tid))
		return 0;
	count_heap(HEAP_CALLS, 1);
	call.exec = exec_number();
	if (leave_last_call(&call, old))
		return 0;
	call.key = key_of_call(ctx, &call, tid);
	if (!call.key && !call.old_address)
		return 0;
	if (!bpf_map_update_elem(&heap_calls, &thread, &call, BPF_ANY))
		return 0;
	count_heap(HEAP_CALLS_LOST, 1);
	if (call.old_address)
		add_freed_of(call.old_key, 1, call.old_size);
	return 0;
}

/* The address that a call has given, 0: none. */
static __always_inline u64 address_given(struct pt_regs *ctx, struct heap_call *call)
{
	u64 address = 0;

	if (!call->place)
		return REGS_RESULT(ctx);
	if ((u32)REGS_RESULT(ctx) || read_user(&address, sizeof(address), call->place))
		return 0;
	return address;
}

/*
 * Such a call returns. Its object is followed until it is freed, if `follows`. `pops`: bytes between the stack pointer
 * at the entry and here: at an instruction that returns, the return address is still on the stack.
 */
static __always_inline int call_ends(struct pt_regs *ctx, bool follows, u32 pops)
{
	u64 thread = bpf_get_current_pid_tgid(), address;
	struct heap_call *known = bpf_map_lookup_elem(&heap_calls, &thread), call;
	struct object_id id = own_object(0);
	struct object object;

	if (!known || known->sp + pops != REGS_SP(ctx))
		return 0;
	call = *known;
	bpf_map_delete_elem(&heap_calls, &thread);
	address = address_given(ctx, &call);
	if (call.old_address) {
		id.address = call.old_address;
		/* realloc(old, 0) frees. */
		object.key = call.old_key;
		object.size = call.old_size;
		object.number = 1;
		if (address || !call.size) {
			add_freed(&object);
			count_heap(HEAP_FREED, 1);
		} else {
			enter_object(&id, &object);
		}
	}
	if (!address) {
		count_heap(HEAP_FAILED, call.size != 0);
		return 0;
	}
	if (!call.key || add_objects(call.key, 1, call.size))
		return 0;
	if (!call.walks_later)
		count_alone(EVENT_CLOCK, COUNT_SAMPLES, 1);
	if (!follows)
		return 0;
	id.address = address;
	object.key = call.key;
	object.size = call.size;
	object.number = 1;
	enter_object(&id, &object);
	return 0;
}

static __noinline int end_call(struct pt_regs *ctx)
{
	return call_ends(ctx, true, RETURN_POPS);
}

/* At an instruction that returns. */
static __noinline int end_call_here(struct pt_regs *ctx)
{
	return call_ends(ctx, true, 0);
}

/* While frees are not seen. */
static __noinline int end_call_alone(struct pt_regs *ctx)
{
	return call_ends(ctx, false, RETURN_POPS);
}

static __noinline int end_call_here_alone(struct pt_regs *ctx)
{
	return call_ends(ctx, false, 0);
}

/* A handler of exceptions begins: calls that began below its frame were left. */
static __noinline int exception_caught(struct pt_regs *ctx)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct heap_call *call = bpf_map_lookup_elem(&heap_calls, &thread);

	if (!call || REGS_SP(ctx) < call->sp)
		return 0;
	if (call->exec == exec_number())
		give_up(call);
	bpf_map_delete_elem(&heap_calls, &thread);
	return 0;
}

/* A call of a function that frees begins. */
static __noinline int free_object(struct pt_regs *ctx)
{
	struct object_id id = own_object(REGS_ARG1(ctx));
	u64 thread = bpf_get_current_pid_tgid();
	struct object object;
	u32 pid, tid;

	if (!id.address || !current_numbers(&pid, &tid))
		return 0;
	count_heap(HEAP_CALLS, 1);
	if (remove_object(&id, &object)) {
		add_freed(&object);
		count_heap(HEAP_FREED, 1);
	} else if (!is_inside(bpf_map_lookup_elem(&heap_calls, &thread), REGS_SP(ctx), exec_number())) {
		count_heap(HEAP_UNKNOWN, 1);
	}
	return 0;
}

static __noinline int begin_sized(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG1(ctx), 0, 0);
}

static __noinline int begin_zeroed(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG1(ctx) * REGS_ARG2(ctx), 0, 0);
}

static __noinline int begin_aligned(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG2(ctx), 0, 0);
}

static __noinline int begin_placed(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG3(ctx), 0, REGS_ARG1(ctx));
}

static __noinline int begin_resized(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG2(ctx), REGS_ARG1(ctx), 0);
}

static __noinline int begin_resized_array(struct pt_regs *ctx)
{
	return begin_call(ctx, REGS_ARG2(ctx) * REGS_ARG3(ctx), REGS_ARG1(ctx), 0);
}

PROBE_PROGRAM(heap_sized, begin_sized)		       /* malloc(size) */
PROBE_PROGRAM(heap_zeroed, begin_zeroed)	       /* calloc(number, size) */
PROBE_PROGRAM(heap_aligned, begin_aligned)	       /* aligned_alloc(alignment, size) */
PROBE_PROGRAM(heap_placed, begin_placed)	       /* posix_memalign(place, alignment, size) */
PROBE_PROGRAM(heap_resized, begin_resized)	       /* realloc(old, size) */
PROBE_PROGRAM(heap_resized_array, begin_resized_array) /* reallocarray(old, number, size) */
PROBE_PROGRAM(heap_returned, end_call)
PROBE_PROGRAM(heap_returned_alone, end_call_alone)
PROBE_PROGRAM(heap_returned_here, end_call_here)
PROBE_PROGRAM(heap_returned_here_alone, end_call_here_alone)
PROBE_PROGRAM(heap_caught, exception_caught) /* __cxa_begin_catch(exception) */
PROBE_PROGRAM(heap_freed, free_object)	     /* free(old) */

#endif
