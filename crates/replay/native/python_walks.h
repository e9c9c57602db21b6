/* SPDX-License-Identifier: GPL-2.0 */
/* What the walk of Python's frames asks of its surroundings, over plain memory. Included by walker.c alone. */
#ifndef REPLAY_PYTHON_WALKS_H
#define REPLAY_PYTHON_WALKS_H

#include "python.h"

/* Code objects that were sent: as in the kernel's map, a later one may replace an earlier one. */
#define SENT_CODES 1024

/* The state of walks of Python's frames in one slot. */
struct python_slot {
	struct python_walk walk;
	u64 sent[SENT_CODES];
};

/* The input and the result of such a walk. Mirrored in src/python.rs. */
struct python_call {
	struct python *interpreter;
	struct interpreted_frame *frames; /* room for MAX_INTERPRETED_FRAMES */
	u8 *ring;			  /* sections of code objects, each behind its length */
	u64 ring_bytes;
	u64 ring_used;
	u64 reads;
	u64 hash;
	u32 end;
	u32 flags;
	u32 total;
	u32 unsent;
	u32 unreadable;
	u32 pad;
};

static _Thread_local struct python_call *call;

static struct python_slot *python_slot_at(u32 slot);

static struct python_walk *python_walk_at(u32 slot)
{
	struct python_slot *at = python_slot_at(slot);

	return at ? &at->walk : NULL;
}

static struct outbox *outbox_at(u32 slot)
{
	struct walk *w = walk_at(slot);

	return w ? &w->outbox : NULL;
}

static struct python *python_at(u32 index)
{
	return index ? NULL : call->interpreter;
}

/* As bpf_ringbuf_output: sends all, or fails. */
static long send_code(struct outbox *box, u64 size)
{
	if (sizeof(size) + size > call->ring_bytes - call->ring_used)
		return -11;
	memcpy(call->ring + call->ring_used, &size, sizeof(size));
	memcpy(call->ring + call->ring_used + sizeof(size), box->words, size);
	call->ring_used += sizeof(size) + size;
	return 0;
}

static bool code_was_sent(u64 key)
{
	return python_slot_at(0)->sent[key % SENT_CODES] == key;
}

static void note_sent_code(u64 key)
{
	python_slot_at(0)->sent[key % SENT_CODES] = key;
}

/* Walks as add_python of bpf/walk_current.h does, after the native walk. */
static void walk_python(u32 slot, u64 exec_id)
{
	struct python_walk *p = python_walk_at(slot);

	p->index = 0;
	p->exec_id = exec_id;
	p->sent = 0;
	p->unsent = 0;
	p->unreadable = 0;
	python_run(slot);
	call->hash = p->hash;
	call->end = p->end;
	call->flags = p->flags;
	call->total = p->total;
	call->unsent = p->unsent;
	call->unreadable = p->unreadable;
	memcpy(call->frames, p->frames, p->total * sizeof(*call->frames));
}

#endif
