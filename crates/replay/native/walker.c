/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The walker of bpf/ over plain memory: the functions that bpf/maps.h has in the kernel, and entry points for Rust.
 *
 * Two things differ from the kernel: the words of the stack come from recorded bytes, and no other memory is readable; the
 * saved registers are in an array by DWARF number.
 */
#include <stdlib.h>
#include <string.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline static __attribute__((noinline))

#define ALLOWANCES 1024
static _Thread_local u64 allowances[1 + 3 * ALLOWANCES];

#include "allowance.h"
#include "claim.h"
#include "sample_weight.h"
#include "values.h"
#include "walk.h"

#include "python_walks.h"

struct segment {
	u64 base;
	u64 size;
	const u8 *bytes;
};

/* The input of a walk. Mirrored in src/native.rs. */
struct surroundings {
	struct chunk *chunks;
	u64 chunk_count;
	const struct segment *segments;
	u64 segment_count;
	u64 registers[16];
	u64 pc;
	u64 seed;
	u64 exec_id;
	u64 uprobes;	/* page of uprobes, 0: none */
	u64 pending_at; /* where the return address of the probed function is, and what it was */
	u64 pending_return;
	u64 thread_pointer;
	u32 tid;
	u32 generation;
	u32 mappings;
	u32 mapping_count;
	u32 epoch;
	u32 pad;
};

struct outcome {
	u64 hash;
	u32 end;
	u32 total;
	u32 matched;
	u32 walked;
};

struct outcome_frame {
	u64 pc; /* with the marks */
	u64 sp;
	u64 fp;
};

/* The second slot is for a walk that interrupts the first one. */
#define SLOTS 2
#define INTERRUPTING 1

/* The state of one CPU. */
struct replay {
	struct walk walks[SLOTS];
	struct memo memos[SLOTS * MEMOS_PER_CPU];
	struct python_slot pythons[SLOTS];
	u32 uses[TABLE_USES];
};

/* A walk that interrupts another one. Mirrored in src/native.rs. */
struct interruption {
	const struct surroundings *surroundings;
	u64 reads; /* this walk begins after so many reads of the stack by the interrupted walk */
	u64 begun;
	struct outcome *outcome;
	struct outcome_frame *frames;
};

static _Thread_local struct replay *here;
static _Thread_local const struct surroundings *around;
static _Thread_local struct interruption *interruption;

static void interrupt(void);

static struct walk *walk_at(u32 slot)
{
	return slot < SLOTS ? &here->walks[slot] : NULL;
}

static struct memo *memo_at(u32 index)
{
	return index < SLOTS * MEMOS_PER_CPU ? &here->memos[index] : NULL;
}

static struct python_slot *python_slot_at(u32 slot)
{
	return slot < SLOTS ? &here->pythons[slot] : NULL;
}

static struct chunk *chunk_at(u32 index)
{
	return index < around->chunk_count ? &around->chunks[index] : NULL;
}

/* As bpf_probe_read_user: reads all bytes, or fails and writes zeros. */
static long read_user(void *to, u32 size, u64 from)
{
	u64 i;

	if (call)
		call->reads++;
	if (interruption && !interruption->begun && !interruption->reads--)
		interrupt();
	for (i = 0; i < around->segment_count; i++) {
		const struct segment *segment = &around->segments[i];
		u64 at = from - segment->base;

		if (at < segment->size && size <= segment->size - at) {
			memcpy(to, segment->bytes + at, size);
			return 0;
		}
	}
	memset(to, 0, size);
	return -14;
}

static u64 saved_register(u64 regs, u32 dwarf_number, u64 *value)
{
	const u64 *registers = (const u64 *)regs;

	if (dwarf_number >= 16)
		return 1;
	*value = registers[dwarf_number];
	return 0;
}

static u64 address_in_program(u64 pc, u64 *sp)
{
	bool at_return = (pc & FRAME_PC) == around->uprobes && *sp == around->pending_at + sizeof(u64);

	return around->uprobes && at_return ? around->pending_return : 0;
}

static u64 thread_pointer(void)
{
	return around->thread_pointer;
}

static void note_use(u32 use, u32 epoch)
{
	here->uses[use % TABLE_USES] = epoch;
}

static u64 hash_seed(void)
{
	return around->seed;
}

struct replay *replay_new(void)
{
	return calloc(1, sizeof(struct replay));
}

void replay_free(struct replay *replay)
{
	free(replay);
}

static void give_outcome(const struct walk *w, struct outcome *outcome)
{
	outcome->hash = w->hash;
	outcome->end = w->end;
	outcome->total = w->total;
	outcome->matched = w->matched;
	outcome->walked = w->n;
}

static void give_frame(const struct frame *frame, struct outcome_frame *to)
{
	to->pc = frame->pc;
	to->sp = frame->sp;
	to->fp = frame->fp;
}

/* Sets the same fields as walk_current of bpf/walk_current.h before a walk. */
static struct walk *start(struct replay *replay, u32 slot, const struct surroundings *surroundings)
{
	struct walk *w = &replay->walks[slot];

	here = replay;
	around = surroundings;
	w->total = 0;
	w->start_pc = (around->pc & FRAME_PC) | FRAME_EXACT;
	w->start_sp = around->registers[7];
	w->start_fp = around->registers[6];
	w->start_regs = (u64)around->registers;
	w->mappings = around->mappings;
	w->count = around->mapping_count;
	w->memo = slot * MEMOS_PER_CPU + (around->tid & (MEMOS_PER_CPU - 1));
	return w;
}

/* Walks as walk_current of bpf/walk_current.h does; up to MAX_USER_FRAMES frames go to `frames`, leaf first. */
static void walk_in(u32 slot, struct replay *replay, const struct surroundings *surroundings, struct outcome *outcome,
		    struct outcome_frame *frames)
{
	struct walk *w = start(replay, slot, surroundings);
	struct memo *m;
	u32 i;

	walk_stack(w, slot, around->exec_id, around->tid, generation_in(around->epoch, around->generation));
	give_outcome(w, outcome);
	m = &replay->memos[w->memo];
	for (i = 0; i < w->total && i < MAX_USER_FRAMES; i++)
		give_frame(&m->frames[w->total - 1 - i], &frames[i]);
}

void replay_walk(struct replay *replay, const struct surroundings *surroundings, struct outcome *outcome,
		 struct outcome_frame *frames)
{
	walk_in(0, replay, surroundings, outcome, frames);
}

/* A walk, and then one of the Python frames of the same thread. */
void replay_python(struct replay *replay, const struct surroundings *surroundings, struct outcome *outcome,
		   struct outcome_frame *frames, struct python_call *of)
{
	walk_in(0, replay, surroundings, outcome, frames);
	call = of;
	walk_python(0, surroundings->exec_id);
	call = NULL;
}

static void interrupt(void)
{
	const struct surroundings *interrupted = around;

	interruption->begun = 1;
	walk_in(INTERRUPTING, here, interruption->surroundings, interruption->outcome, interruption->frames);
	around = interrupted;
}

/* A walk that another one interrupts, in the state of another context on the same CPU. */
void replay_interrupted(struct replay *replay, const struct surroundings *surroundings, struct outcome *outcome,
			struct outcome_frame *frames, struct interruption *by)
{
	interruption = by;
	walk_in(0, replay, surroundings, outcome, frames);
	interruption = NULL;
}

/* The hash of these values, computed as push_batch does for frames. */
u64 replay_hash(u64 seed, const u64 *values, u64 count)
{
	const struct surroundings surroundings = {.seed = seed};
	u64 hash, i;

	around = &surroundings;
	hash = hash_seed();
	for (i = 0; i < count; i++)
		hash = hash_mix(hash, values[i]);
	around = NULL;
	return hash;
}

/* A walk that looks everything up: check_walk of bpf/walk_current.h, and without the rules of known pcs. */
void replay_again(struct replay *replay, const struct surroundings *surroundings, struct outcome *outcome,
		  struct outcome_frame *frames)
{
	struct walk *w = start(replay, 0, surroundings);
	u32 i;

	memset(w->rules, 0, sizeof(w->rules));
	w->depth = 0;
	walk_run(0);
	walk_rehash(w, 0);
	give_outcome(w, outcome);
	for (i = 0; i < w->total && i < MAX_USER_FRAMES; i++)
		give_frame(&w->frames[i], &frames[i]);
}

/* The last epoch in which a walk used the table with this `use`. */
u32 replay_last_use(const struct replay *replay, u32 use)
{
	return replay->uses[use % TABLE_USES];
}

/* Forgets the last walks and their cached rules. */
void replay_forget(struct replay *replay)
{
	u32 i;

	for (i = 0; i < SLOTS * MEMOS_PER_CPU; i++)
		replay->memos[i].depth = 0;
	for (i = 0; i < SLOTS; i++)
		memset(replay->walks[i].rules, 0, sizeof(replay->walks[i].rules));
}

bool replay_claim(u64 *claims)
{
	return claim(claims);
}

void replay_release(u64 *claims)
{
	release(claims);
}

/* The numbers of bpf/abi/ that the Rust side repeats, in the order of src/native.rs. */
const u64 replay_numbers[] = {
    CHUNK_WORDS,
    MAX_CHUNKS,
    MAX_RULES,
    MAX_USER_FRAMES,
    FRAME_EXACT,
    FRAME_BY_FP,
    FRAME_PC,
    MAPPING_TABLE,
    MAPPING_FP,
    MAPPING_NOT_READY,
    WALK_ROOT,
    WALK_NO_MAPPING,
    WALK_NO_ROW,
    WALK_UNSUPPORTED_RULE,
    WALK_FP_CHAIN,
    WALK_FAULT,
    WALK_FRAME_LIMIT,
    WALK_TABLE_NOT_READY,
    WALK_STACK_SWITCH,
    WALK_ZERO_FRAME,
    sizeof(struct surroundings),
    sizeof(struct outcome),
    sizeof(struct outcome_frame),
    sizeof(struct segment),
    sizeof(struct interruption),
    sizeof(struct total),
    MAX_INTERPRETED_FRAMES,
    INTERPRETED_OUTERMOST,
    INTERPRETED_STAMP_SHIFT,
    PYTHON_HALF_LINKED,
    SECTION_CODE_OBJECT,
    sizeof(struct interpreted_frame),
    sizeof(struct python_code),
    sizeof(struct python),
    sizeof(struct python_call),
};

void replay_first_values(u32 schema, const u64 *values, struct total *total)
{
	u32 slot;

	for (slot = 0; slot < VALUE_SLOTS; slot++)
		total->values[slot] = first_value(fold_of(schema, slot), values[slot]);
}

void replay_add_values(u32 schema, const u64 *values, struct total *total)
{
	add_values(total, schema, values[0], values[1], values[2]);
}

u64 replay_sample_weight(u64 size, u64 rate)
{
	return weight_of(size, rate);
}

/* Uses the allowances for a stack that is sent at `now`. Not 0: they refuse it. */
u32 replay_send_stack(u32 pid, u32 end, u32 sampled, u64 now, u64 bytes)
{
	u32 refused = refused_by_allowance(pid, end, sampled, now);

	if (refused)
		return refused == COUNT_UNSENT_OF_PROCESS ? 1 : 2;
	use_allowance(pid, end, sampled, now, bytes);
	return 0;
}
