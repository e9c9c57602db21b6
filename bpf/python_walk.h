/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state of a walk of Python's frames, which a slot claims for the time of one sample. The native build gives the
 * functions at the end as maps.h does. */
#ifndef PERF_AGENT_PYTHON_WALK_H
#define PERF_AGENT_PYTHON_WALK_H

#include "stackhash.h"

#define PYTHON_WINDOW 4096
/* Offsets in what is read are below this. */
#define PYTHON_FIELDS 256
#define STAMPED_CODES_SHIFT 8
#define STAMPED_CODES (1 << STAMPED_CODES_SHIFT)

/* An epoch that the interpreter's counter tells; others are numbers of walks. */
#define PYTHON_COUNTED (1ULL << 63)

/* The stamp of a code object, which user space has. In the same epoch its address is that of no other. */
struct stamped_code {
	u64 code;
	u64 program;
	u64 epoch;
	u32 stamp;
	u32 copy;	/* of its instructions, by its number; 0: none is known */
	u64 first_unit; /* of that copy */
};

/* The part of a string or of bytes that is sent. */
struct python_part {
	u64 from;
	u32 bytes;
	u16 kind; /* bytes of a character */
	u16 cut;  /* there are more, or they could not be read */
};

struct python_walk {
	u64 claims; /* see claim_python_walk */
	u64 walks;  /* so far */
	u64 exec_id;
	/* Of exec_id and process: children have the addresses of their parent, and processes that are there from the
	 * start have one exec_id. */
	u64 program;
	u32 pid;
	u32 index; /* of the interpreter in `pythons` */

	u64 frame;	/* the next one */
	u64 base_frame; /* the chain ends before it */
	u64 code;	/* argument of python_stamp, python_look, python_send_code, python_find_copy */
	u64 first_unit; /* result of python_find_copy */
	u64 epoch;
	u64 hash;  /* result */
	u32 total; /* result: frames */
	u32 end;   /* result: enum python_end */
	u32 flags; /* result: PYTHON_HALF_LINKED */
	u32 stamp;
	u32 copy; /* argument of python_find_copy */
	u32 pad;

	u64 win_start;
	u64 win_last; /* last offset at which a frame may be read */
	u32 next_size;
	/* Code objects that were sent, that did not fit into the ring, that could not be read. */
	u32 sent;
	u32 unsent;
	u32 unreadable;

	struct python_part name;
	struct python_part file;
	struct python_part table;
	u8 head[PYTHON_FIELDS + 8];
	u8 window[PYTHON_WINDOW + PYTHON_FIELDS + 8];
	struct interpreted_frame frames[MAX_INTERPRETED_FRAMES];
	struct stamped_code stamped[STAMPED_CODES];
};

static struct python_walk *python_walk_at(u32 slot);
static struct python *python_at(u32 index);
static struct outbox *outbox_at(u32 slot);
static long send_code(struct outbox *box, u64 size);
static bool code_was_sent(u64 key);
static void note_sent_code(u64 key);

static __always_inline struct stamped_code *stamped(struct python_walk *p, u64 code)
{
	return &p->stamped[(code * 0x9e3779b97f4a7c15ULL) >> (64 - STAMPED_CODES_SHIFT)];
}

#endif
