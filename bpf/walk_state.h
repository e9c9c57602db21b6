/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The state of a walk: one `struct walk` for each CPU and use, and the memos, a few for each CPU.
 *
 * The walker is written against the functions declared at the end. maps.h gives them over BPF maps; the native
 * build (crates/replay) over plain memory, so that ordinary tests run the same code on recorded stacks.
 */
#ifndef PERF_AGENT_WALK_STATE_H
#define PERF_AGENT_WALK_STATE_H

#include "outbox.h"

#define WINDOW 4096
#define WINDOW_FIRST 512
#define SMALLEST_PAGE 4096
#define LEAF_CODE 32 /* bytes of code at the pc of a leaf */
#define MEMOS_PER_CPU 4

/* The compiler may not draw conclusions about the value across this point (libbpf's barrier_var). */
#define keep_in_register(value) asm volatile("" : "+r"(value))

/*
 * Loops over frames run in batches. Each batch is a call of a global function, which the verifier checks once. It would
 * follow every round of one long loop, and loading would take half a second.
 */
#define BATCH 32
#define BATCHES (MAX_USER_FRAMES / BATCH)
#define DONE 1
#define MORE 0

/* Marks that only the walker uses: one stack may be walked with and without them. */
#define FRAME_NOT_IN_MEMO_BIT 61
#define FRAME_NOT_IN_MEMO (1ULL << FRAME_NOT_IN_MEMO_BIT) /* depends on another register, or on a word too far away */
#define FRAME_CFA_WORD (1ULL << 60)			  /* the CFA was read from memory: see struct cfa_word */
#define FRAME_PLACE (FRAME_PC | FRAME_EXACT)
#define FRAME_OUTSIDE (FRAME_PLACE | FRAME_BY_FP)

/* Offsets of words from a stack pointer are unsigned: sign extensions of 32-bit numbers would cost more than the
 * addition. */
#define NO_WORD 0
#define OFFSET_ZERO (1ULL << 31)

/*
 * A frame, and the words of the stack that tell its caller: the return address and the saved frame pointer, each as
 * OFFSET_ZERO + offset from `sp`, or NO_WORD. Each sample reads a whole memo, so two frames share a cache line.
 */
struct frame {
	u64 pc; /* with marks */
	u64 sp;
	u64 fp;
	u32 ra_at;
	u32 fp_at;
};

/* The word that gives the CFA when `add` is added; `at` is as in struct frame. Few frames have one. */
struct cfa_word {
	u32 at;
	short add;
	u16 pad;
};

/*
 * The rule of a pc. It is valid while the process has this generation. Programs come back to the same return addresses
 * again and again; a hit saves the searches for mapping, page and row, and with them most of the memory that a step
 * touches.
 */
struct cached_rule {
	u64 pc; /* with FRAME_EXACT */
	u64 generation;
	struct rule rule;
};

#define CACHED_RULES_SHIFT 8
#define CACHED_RULES (1 << CACHED_RULES_SHIFT)

/* Why the last caller was found by frame pointer. */
enum guess {
	GUESS_NONE = 0, /* it was found by a rule */
	GUESS_NO_ROW = 1,
	GUESS_NO_TABLE = 2,
	GUESS_SWITCH = 3, /* by what Go's runtime keeps in memory */
};

struct walk {
	u64 pc; /* the frame to be looked at next */
	u64 sp;
	u64 fp;
	u64 regs; /* kernel address of the saved user registers, 0 where the frame is not the innermost */

#ifdef LINK_REGISTER
	u64 link; /* the link register of a frame that a signal interrupted; 0: not known */
#endif

	u64 start_pc;
	u64 start_sp;
	u64 start_fp;
	u64 start_regs;

	u32 mappings; /* of the process, see struct proc */
	u32 count;
	u64 generation; /* see generation_in */

	u32 end;     /* enum walk_end */
	u32 n;	     /* frames[] in use: those that were walked, innermost first */
	u32 depth;   /* frames of the memo that may still be met */
	u32 memo;    /* index of the memo */
	u32 matched; /* frames of the memo that are the outer part of this stack */
	u32 guess;   /* enum guess */

	u64 map_start; /* the mapping of the last look-up */
	u64 map_size;
	u64 map_bias;
	u32 map_pages; /* address in the table pool of its page entries */
	u32 map_rules; /* and of the rules of its file */
	u32 map_kind;
	u32 nowhere; /* the walk ended at an address that is known to be in no mapping */
	u32 first_page;
	u32 pages;

	u64 want; /* argument of walk_fill */
	u64 win_start;
	u64 win_last;  /* last offset at which a word may be read */
	u64 win_limit; /* the stack is known to reach to here, or 0 */
	u32 win_size;  /* of the next read */
	u32 total;     /* result: frames of the stack */
	u64 hash;      /* result */

	u32 code_at;	/* the next instruction in `code` */
	u32 code_cfa;	/* what they say: the CFA from sp, */
	u32 code_saved; /* and whether rbp is saved below the return address */
	u32 undecided;	/* the code at the leaf did not show whether its frame is set up */
	u8 code[LEAF_CODE + 24];

	u32 at;	  /* between batches: the frame to go on with */
	u32 left; /* and how many are left */

	struct cached_rule rules[CACHED_RULES];
	u8 window[WINDOW + 8];
	/* A walk ends by moving its frames to the memo, and messages are put together after walks. */
	union {
		struct {
			struct frame frames[MAX_USER_FRAMES];
			struct cfa_word cfas[MAX_USER_FRAMES];
		};
		struct outbox outbox;
	};
};

/* The last walk of a thread, root first, if it ended at the root. */
struct memo {
	u64 exec_id;
	u64 generation;
	u32 tid;
	u32 depth; /* 0: empty */
	struct frame frames[MAX_USER_FRAMES];
	struct cfa_word cfas[MAX_USER_FRAMES];
	u64 hashes[MAX_USER_FRAMES]; /* of a frame and everything outward */
};

_Static_assert(sizeof(struct frame) == 32 && sizeof(struct cached_rule) == 32, "two to a line");

struct chunk {
	u32 words[CHUNK_WORDS];
};

static struct walk *walk_at(u32 slot);
static struct memo *memo_at(u32 index);
static struct chunk *chunk_at(u32 index);
static long read_user(void *to, u32 size, u64 from);
static u64 saved_register(u64 regs, u32 dwarf_number, u64 *value);
static u64 hash_seed(void);
static u64 thread_pointer(void); /* of the walked thread; 0: not known */
static void note_use(u32 use, u32 epoch);

/*
 * The number of a process's mappings and tables, with the epoch in its upper half. So nothing is remembered from an
 * earlier epoch, and a walk looks each of its tables up, which notes their use.
 */
static __always_inline u64 generation_in(u32 epoch, u32 generation)
{
	return (u64)epoch << 32 | generation;
}

/* Where the rule of a pc is remembered. */
static __always_inline struct cached_rule *cached_rule_of(struct walk *w, u64 pc)
{
	return &w->rules[(pc * 0x9e3779b97f4a7c15ULL) >> (64 - CACHED_RULES_SHIFT)];
}

#endif
