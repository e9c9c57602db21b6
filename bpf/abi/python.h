/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* CPython: what the walk of its frames knows of an interpreter, how it ends, and what is sent of a code object. */
#ifndef PERF_AGENT_ABI_PYTHON_H
#define PERF_AGENT_ABI_PYTHON_H

#include "messages.h"

/* Elements of `pythons`. A process has the number of its element + 1 in its record. */
#define MAX_PYTHONS 1024

/* How frames are linked. */
enum python_family {
	PYTHON_HEAP_FRAMES = 0,	  /* 3.8 to 3.10: each frame is an object, and has an evaluator frame of its own */
	PYTHON_ENTRY_FRAMES = 1,  /* 3.11: a mark tells the outermost frame of an evaluator frame */
	PYTHON_SHIMS = 2,	  /* 3.12: a frame of no function follows it */
	PYTHON_DEBUG_OFFSETS = 3, /* 3.13 and later: the same, and the thread state has the innermost frame itself */
};

/* `owner` of a frame of no function, from 3.12 on; greater ones mean the same. */
#define PYTHON_OWNED_BY_C_STACK 3

/* Bytes of a thread state that are read at once, and the largest offset + 8 in it. */
#define PYTHON_STATE_BYTES 192
/* A frame has at most this many bytes that matter. */
#define PYTHON_FRAME_BYTES 128
/* The part of a code object that tells one from another that had its address has so many bytes. */
#define PYTHON_CODE_BYTES 112

#define PYTHON_EVALUATORS 3

struct python_range {
	unsigned long long start;
	unsigned long long end; /* after the last address */
};

/* An interpreter in a process. Addresses are those in the process; offsets are in bytes, named by structure and field.
 */
struct python {
	unsigned long long runtime; /* of _PyRuntime */
	struct python_range evaluator[PYTHON_EVALUATORS];
	/* The code of the evaluator before its first opcode: the call may not be in the chain of frames yet. */
	struct python_range before_dispatch;
	/* Where a thread keeps its state: at `slot` from the thread pointer; or, if `slot_table` is not 0, from the
	 * address that is kept there; or, if `slot_block` is not 0 either, from the address that is kept there from
	 * that address on. Without one it is 0, a block may be all ones. */
	unsigned int slot_table;
	unsigned int slot_block;
	int slot;
	unsigned int interp_code_counter;      /* 0: none */
	unsigned int interp_copies_counter;    /* 0: none */
	unsigned short runtime_tstate_current; /* 0: none */
	unsigned short family;		       /* enum python_family */
	unsigned short tagged;		       /* the lowest two bits of pointers in frames are marks */
	unsigned short tstate_interp;
	unsigned short tstate_thread_id;
	unsigned short tstate_frame;
	unsigned short tstate_base_frame; /* of no function, at the end of each chain; 0: there is none */
	unsigned short cframe_current_frame;
	unsigned short frame_previous;
	unsigned short frame_code;
	unsigned short frame_instruction;
	unsigned short frame_entry; /* is_entry or owner, a byte */
	unsigned short frame_copy;  /* the number of the thread's copy of the instructions, an int */
	unsigned short frame_bytes;
	unsigned short code_first_unit;
	unsigned short code_copies; /* 0: none */
	/* The next ones are within PYTHON_CODE_BYTES from `code_from` on. */
	unsigned short code_from;
	unsigned short code_first_line;
	unsigned short code_version; /* 0: none */
	unsigned short code_filename;
	unsigned short code_name;
	unsigned short code_line_table;
	unsigned short str_length;
	unsigned short str_state;
	unsigned short str_kind_shift;
	unsigned short str_ascii_bytes;
	unsigned short str_wide_bytes;
	unsigned short bytes_length;
	unsigned short bytes_bytes;
	unsigned short unused;
};

/* How a walk of Python's frames ends. */
enum python_end {
	PYTHON_ROOT = 0,	 /* at the end of the chain */
	PYTHON_NO_STATE = 1,	 /* the thread runs no Python */
	PYTHON_OTHER_THREAD = 2, /* what is in the slot is not the state of this thread */
	PYTHON_FAULT = 3,	 /* memory could not be read, or so many CPUs walk such frames at this moment */
	PYTHON_LIMIT = 4,	 /* more than MAX_INTERPRETED_FRAMES */
	PYTHON_NO_FRAME = 5,	 /* the thread runs no Python function now */
	PYTHON_OPEN = 6,	 /* the outermost frame is not one where an evaluator began */
	PYTHON_ENDS = 7,
};

/* The word of SECTION_INTERPRETED_WALK: enum python_end, and these flags. */
#define PYTHON_HALF_LINKED 0x100 /* the innermost call of the evaluator is not in the chain yet */

/* How the characters of a string are stored: 1, 2 or 4 bytes each; or the string could not be read. */
#define PYTHON_NO_STRING 0

/* The most bytes of each part of a code object that are sent. */
#define PYTHON_NAME_BYTES 512
#define PYTHON_FILE_BYTES 1024
#define PYTHON_TABLE_BYTES 8192

#define PYTHON_NAME_CUT 1
#define PYTHON_FILE_CUT 2
#define PYTHON_TABLE_CUT 4 /* the line table is longer, or could not be read */

/* A code object in SECTION_CODE_OBJECT; the bytes of its name, file name and line table follow. */
struct python_code {
	unsigned long long address;
	unsigned int stamp;
	unsigned int first_line;
	unsigned short name_bytes;
	unsigned short file_bytes;
	unsigned short table_bytes;
	unsigned char name_kind; /* bytes of a character */
	unsigned char file_kind;
	unsigned int cut; /* PYTHON_NAME_CUT and so on */
	unsigned int pad;
};

_Static_assert(sizeof(struct python_range) == 16, "two words");
_Static_assert(sizeof(struct python) == 152, "an interpreter");
_Static_assert(sizeof(struct python_code) == 32, "four words");

#endif
