/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Allocations that an allocator samples itself: programs at the functions, or USDT probes, by which it notes a sample
 * and the end of a sampled object. User space tells where the arguments are: a struct heap_site for each place. What an
 * object stands for follows from its size and the allocator's rate, or is told by the allocator.
 *
 * Where an allocator that frees tells the object only to an outer function, a program there notes its address for the
 * thread.
 */
#ifndef PERF_AGENT_HEAP_SAMPLES_H
#define PERF_AGENT_HEAP_SAMPLES_H

#include "heap.h"
#include "sample_weight.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct heap_site);
} heap_sites SEC(".maps");

/* The object that a thread is about to free. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u64);
} noted_objects SEC(".maps");

static __always_inline struct heap_site *site_of(struct pt_regs *ctx)
{
	u32 place = REGS_PC(ctx) & HEAP_SITE_BITS;

	return bpf_map_lookup_elem(&heap_sites, &place);
}

/* An argument by its plan. False: it cannot be read, which is counted. */
static __always_inline bool read_argument(struct pt_regs *ctx, struct value_plan *plan, u64 *value)
{
	u64 word = 0;

	if (load_by(plan, ctx, &word)) {
		count_heap(HEAP_UNREADABLE, 1);
		return false;
	}
	*value = bits_of(plan, word);
	return true;
}

/* The mean number of bytes between two samples, as the process has it now. */
static __always_inline bool rate_at(struct pt_regs *ctx, struct heap_site *site, u64 *rate)
{
	*rate = site->rate;
	if (site->rate_distance && read_user(rate, sizeof(*rate), REGS_PC(ctx) + site->rate_distance)) {
		count_heap(HEAP_UNREADABLE, 1);
		return false;
	}
	if (site->rate_is_logarithm)
		*rate = 1ULL << (*rate & 63);
	return true;
}

/* Objects of a size that have so many bytes together. A fraction of an object counts with its probability. */
static __always_inline u64 objects_in(u64 bytes, u64 size)
{
	u64 number, rest;

	if (!size)
		return 1;
	number = bytes / size;
	rest = bytes % size;
	if (size >> 32) {
		size >>= 32;
		rest >>= 32;
	}
	return number + ((bpf_get_prandom_u32() * size >> 32) < rest);
}

#define MAX_ADDRESS_BITS 47

/* What a sample stands for, and its object's address, 0: it is not followed. Not 0: it cannot be read, which is
 * counted. */
static __noinline int read_sample(struct pt_regs *ctx, struct object *object, u64 *address)
{
	struct heap_site *site = site_of(ctx);
	u64 size, bytes, rate;

	if (!site || !object || !address) {
		count_heap(HEAP_UNREADABLE, 1);
		return 1;
	}
	if (!read_argument(ctx, &site->size, &size))
		return 1;
	if (site->address.base != VALUE_NONE && !read_argument(ctx, &site->address, address))
		return 1;
	if (site->weight.base != VALUE_NONE) {
		if (!read_argument(ctx, &site->weight, &bytes))
			return 1;
	} else {
		if (!rate_at(ctx, site, &rate))
			return 1;
		bytes = weight_of(size, rate);
	}
	/* What a target tells may be anything: an address is no longer than this. */
	if (size >> MAX_ADDRESS_BITS || bytes >> MAX_ADDRESS_BITS) {
		count_heap(HEAP_UNREADABLE, 1);
		return 1;
	}
	object->size = bytes;
	object->number = objects_in(bytes, size);
	return 0;
}

/* Enters what all objects of one stack share, which leads to the key of that stack. */
static __noinline int enter_shared(struct object_id *id, struct object *object)
{
	struct object *known = bpf_map_lookup_elem(&live_objects, id);

	if (known) {
		known->key = object->key;
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

/* An allocator has taken a sample. */
static __noinline int take_sampled(struct pt_regs *ctx)
{
	struct object object = {};
	struct object_id id = own_object(0);
	struct heap_call call = {};
	struct heap_site *site;
	u32 tid;

	if (!current_numbers(&call.pid, &tid))
		return 0;
	count_heap(HEAP_CALLS, 1);
	if (read_sample(ctx, &object, &id.address))
		return 0;
	object.key = key_of_call(ctx, &call, tid);
	if (!object.key || add_objects(object.key, object.number, object.size))
		return 0;
	if (!call.walks_later)
		count_alone(EVENT_CLOCK, COUNT_SAMPLES, 1);
	site = site_of(ctx);
	if (!id.address)
		/* Nothing is told to be in use that may not be. */
		add_freed(&object);
	else if (site && site->is_shared)
		enter_shared(&id, &object);
	else
		enter_object(&id, &object);
	return 0;
}

/* Which object it is in the table. False: that cannot be told. */
static __always_inline bool identify(struct object_id *id, u64 address)
{
	u32 pid, tid;

	if (!address || !current_numbers(&pid, &tid))
		return false;
	*id = own_object(address);
	count_heap(HEAP_CALLS, 1);
	return true;
}

static __noinline int free_sampled_at(u64 address)
{
	struct object_id id = {};
	struct object object;

	if (!identify(&id, address))
		return 0;
	if (remove_object(&id, &object)) {
		add_freed(&object);
		count_heap(HEAP_FREED, 1);
	} else {
		count_heap(HEAP_UNKNOWN, 1);
	}
	return 0;
}

/* As above, by what all objects of its stack share. What one stands for is computed again. */
static __noinline int free_shared(struct pt_regs *ctx, struct heap_site *site, u64 address)
{
	u64 size, time_ns, rate, bytes;
	struct object_id id = {};
	struct object *known;

	if (!site || !identify(&id, address))
		return 0;
	if (!read_argument(ctx, &site->size, &size) || !read_argument(ctx, &site->time, &time_ns) ||
	    !rate_at(ctx, site, &rate))
		return 0;
	known = bpf_map_lookup_elem(&live_objects, &id);
	if (!known || time_ns < site->begin_ns) {
		count_heap(HEAP_UNKNOWN, 1);
		return 0;
	}
	bytes = weight_of(size, rate);
	add_freed_of(known->key, objects_in(bytes, size), bytes);
	count_heap(HEAP_FREED, 1);
	return 0;
}

/* A sampled object is freed. Its address is an argument, or was noted. */
static __noinline int free_sampled(struct pt_regs *ctx)
{
	struct heap_site *site = site_of(ctx);
	u64 thread = bpf_get_current_pid_tgid(), address = 0, *noted;

	if (site && site->address.base != VALUE_NONE) {
		if (!read_argument(ctx, &site->address, &address))
			return 0;
		return site->is_shared ? free_shared(ctx, site, address) : free_sampled_at(address);
	}
	noted = bpf_map_lookup_elem(&noted_objects, &thread);
	if (!noted) {
		count_heap(HEAP_UNREADABLE, 1);
		return 0;
	}
	address = *noted;
	bpf_map_delete_elem(&noted_objects, &thread);
	return free_sampled_at(address);
}

/* A function that may free a sampled object begins. */
static __noinline int note_object(struct pt_regs *ctx)
{
	struct heap_site *site = site_of(ctx);
	u64 thread = bpf_get_current_pid_tgid(), address = 0;

	if (!site) {
		count_heap(HEAP_UNREADABLE, 1);
		return 0;
	}
	if (!read_argument(ctx, &site->address, &address))
		return 0;
	if (bpf_map_update_elem(&noted_objects, &thread, &address, BPF_ANY))
		count_heap(HEAP_CALLS_LOST, 1);
	return 0;
}

PROBE_PROGRAM(heap_sampled, take_sampled)
PROBE_PROGRAM(heap_sample_freed, free_sampled)
PROBE_PROGRAM(heap_object_noted, note_object)

#endif
