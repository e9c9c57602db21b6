/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Messages of the ring: a head and typed sections. Records of process life have another format: life.h. */
#ifndef PERF_AGENT_ABI_MESSAGES_H
#define PERF_AGENT_ABI_MESSAGES_H

#include "processes.h"

enum message_kind {
	MESSAGE_STACK = 1,
	MESSAGE_PROC = 2,	  /* please read the mappings of this process */
	MESSAGE_RAW = 3,	  /* a stack that could not be walked yet; an iterator gives only its registers */
	MESSAGE_WOKEN = 4,	  /* a wait and its waker: see struct woken */
	MESSAGE_STILL_ASLEEP = 5, /* the thread has not run since its stack was asked for */
	MESSAGE_LIFE = 6,	  /* a record of process life: see struct life */
	MESSAGE_SAMPLE = 7,	  /* one sample of the stack under `hash`, if single samples are recorded */
	MESSAGE_STACK_PART = 8,	  /* bytes that belong to the next MESSAGE_RAW with its tid and time */
	MESSAGE_CODE = 9,	  /* a code object of an interpreter; `hash` is its address */
	MESSAGE_INTERPRETED = 10, /* interpreted frames that belong to the next MESSAGE_RAW with its tid and time */
	MESSAGE_LOCK = 11,	  /* waits for a lock: see struct lock_wait */
};

/* The head of a message; sections follow. */
struct message {
	unsigned int kind;
	unsigned int pid;
	unsigned int tid;
	unsigned int end;	    /* enum walk_end */
	unsigned long long hash;    /* of MESSAGE_STACK_PART: the address of the first byte */
	unsigned long long exec_id; /* of MESSAGE_SAMPLE: the interrupted pc, or an interval's waker */
	unsigned int bytes;	    /* of all sections, with their heads */
	unsigned short state;	    /* enum off_state, or one of the numbers after it */
	unsigned short event;	    /* enum event */
	char thread[COMM_LEN];	    /* the thread's name */
	unsigned long long time;    /* of a stack: when it was taken, CLOCK_MONOTONIC */
};

/* User space skips sections of kinds that it does not know. */
enum section_kind {
	SECTION_KERNEL_FRAMES = 1,	/* 8 bytes a frame, leaf first */
	SECTION_NATIVE_FRAMES = 2,	/* user frames, 8 bytes each, root first */
	SECTION_REGISTERS = 3,		/* struct raw_registers */
	SECTION_STACK = 4,		/* struct raw_stack and the bytes of the user stack */
	SECTION_WOKEN = 5,		/* struct woken */
	SECTION_INTERPRETED_FRAMES = 6, /* struct interpreted_frame each, innermost first */
	SECTION_OBJECT = 7,		/* 8 bytes: the address of the object of the event, such as a lock */
	SECTION_VALUES = 8,		/* 8 bytes a value, by the schema of the event */
	SECTION_LINKED_STACKS = 9,	/* struct linked_stack each */
	SECTION_TIME_BIN = 10,		/* 8 bytes: the number of the time bin, where counts are split by time */
	SECTION_SAMPLED_AT = 11,	/* struct sampled_at */
	SECTION_CODE_OBJECT = 12,	/* struct python_code and its bytes */
	SECTION_INTERPRETED_WALK = 13,	/* 8 bytes: how the walk of the interpreter's frames ended, and flags */
	SECTION_LOCK = 14,		/* struct lock_wait */
};

/* The head of a section. */
struct section {
	unsigned short kind;
	unsigned short count; /* of its items, if it has items; the section may be longer */
	unsigned int bytes;   /* after the head; a multiple of 8, except in the last section */
};

/* The CPU of a sample, and the value of CONTROL_SIDE_CHANGES, which tells the side of its sum. */
struct sampled_at {
	unsigned int cpu;
	unsigned int side_changes;
};

/* A frame of an interpreter. */
struct interpreted_frame {
	unsigned long long code;  /* address of the code object in the process */
	unsigned int instruction; /* its index in the code object, in units of the interpreter */
	unsigned int marks;
};

/* `marks` of an interpreted frame: a flag in the lowest bit, a stamp in the other 31. */
enum interpreted_marks {
	INTERPRETED_OUTERMOST = 1,   /* the first frame of a call of the interpreter */
	INTERPRETED_STAMP_SHIFT = 1, /* the stamp distinguishes code objects that had the same address */
};

/* The role of a linked stack. */
enum stack_role {
	ROLE_WAKER = 1, /* it ended the wait */
	ROLE_OWNER = 2, /* it held what was waited for */
};

/* A further stack that belongs to the stack of a message. */
struct linked_stack {
	unsigned long long key;
	unsigned int role; /* enum stack_role */
	unsigned int pad;
};

/* The most items of a section. User space refuses messages with more. */
enum section_limit {
	MAX_INTERPRETED_FRAMES = 512,
	MAX_LINKED_STACKS = 4,
};

/* In MESSAGE_WOKEN: the keys of both stacks. The sums of the pair come under the hash of the message. */
struct woken {
	unsigned long long blocked;
	unsigned long long waker;
};

/* How a thread waits for a lock. */
enum lock_kind {
	LOCK_NONE = 0,	 /* it does not */
	LOCK_WAIT = 1,	 /* FUTEX_WAIT */
	LOCK_BITSET = 2, /* FUTEX_WAIT_BITSET */
	LOCK_PI = 3,	 /* FUTEX_LOCK_PI: the word has the number of the owner */
	LOCK_GO = 4,	 /* a goroutine waits, not its thread */
	/* Locks of the kernel, by the flags of lock:contention_begin: */
	LOCK_KERNEL_SPIN = 5,
	LOCK_KERNEL_RWLOCK = 6,
	LOCK_KERNEL_MUTEX = 7,
	LOCK_KERNEL_RWSEM = 8,
	LOCK_KERNEL_RT = 9,
	LOCK_KERNEL_PERCPU = 10,
	LOCK_KERNEL_SEMAPHORE = 11,
	/* Beside these: the call lets other processes wait for the lock too. */
	LOCK_SHARED = 1 << 8,
};

/* In MESSAGE_LOCK: what the waits have in common whose sums come under the hash of the message. */
struct lock_wait {
	unsigned long long stack; /* key of the stack of the waiter */
	unsigned long long
	    owner; /* key of the stack of the thread that held the lock when the wait began; 0: not known */
	unsigned long long waker;   /* key of the stack that ended the wait; 0: none */
	unsigned long long address; /* of the lock */
	unsigned int kind;	    /* enum lock_kind */
	unsigned int released;	    /* the waker let go of the lock, as by a futex call on the same address */
	unsigned int length;	    /* of EVENT_LOCK_LENGTH: the bucket of the lengths + 1; else 0 */
	unsigned int pad;
};

/* Buckets of lengths: 8 for each power of two, and one for each ns below 8. */
#define LENGTH_SUB_SHIFT 3

_Static_assert(sizeof(struct message) == 64, "message header");
_Static_assert(sizeof(struct section) == 8, "section header");
_Static_assert(sizeof(struct sampled_at) == 8, "a word");
_Static_assert(sizeof(struct interpreted_frame) == 16, "two words a frame");
_Static_assert(sizeof(struct linked_stack) == 16, "two words a stack");
_Static_assert(sizeof(struct woken) == 16, "two keys");
_Static_assert(sizeof(struct lock_wait) == 48, "four words and four halves");

#endif
