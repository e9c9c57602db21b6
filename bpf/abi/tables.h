/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Unwind tables: the table pool, rules, and the rows of text pages. */
#ifndef PERF_AGENT_ABI_TABLES_H
#define PERF_AGENT_ABI_TABLES_H

/* The table pool: memory that both sides address by 32-bit word numbers. It consists of chunks, made on demand. */
#define CHUNK_WORDS_SHIFT 14
#define CHUNK_WORDS (1 << CHUNK_WORDS_SHIFT)
#define CHUNK_BYTES (CHUNK_WORDS * 4)
#define MAX_CHUNKS 4096

/* Rows are grouped by text pages of this size. It is not the page size of the machine. */
#define TEXT_PAGE_SHIFT 16

/* Rules of one file; a row has 16 bits for their number. */
#define MAX_RULES 8192
#define RULE_WORDS 4

enum cfa_kind {
	CFA_NONE = 0,	     /* gap: no unwind information here */
	CFA_SP = 1,	     /* sp + cfa_off */
	CFA_FP = 2,	     /* fp + cfa_off */
	CFA_REG = 3,	     /* register (flags & RULE_REG) + cfa_off, innermost frame only */
	CFA_SP_DEREF = 4,    /* *(sp + cfa_off) + cfa_add */
	CFA_FP_DEREF = 5,    /* *(fp + cfa_off) + cfa_add */
	CFA_PLT = 6,	     /* sp + cfa_off + (((pc & 15) >= cfa_add) << 3) */
	CFA_UNSUPPORTED = 7, /* there is a row, but the walker cannot evaluate it */
	CFA_SWITCH = 8,	     /* the function called on another stack, and nothing tells where its own frame is */
	/* Switches of stacks of Go's runtime; `struct rule` says how its fields are used. */
	CFA_GO_CALL = 9,       /* the goroutine's saved sp points to the return address */
	CFA_GO_GROW = 10,      /* the caller's pc, sp and frame pointer are those that the goroutine has saved */
	CFA_GO_LEAVE = 11,     /* the same; the word at sp is the goroutine, if it has not left the thread */
	CFA_GO_CALL_OF_C = 12, /* the goroutine, and its sp's distance from the end of its stack, are in the frame */
	CFA_GO_RESUME = 13,    /* sp is that of the current `g` already; its pc is saved there */
};

enum ra_kind {
	RA_CFA = 0,	  /* *(CFA + ra_off) */
	RA_SP = 1,	  /* *(sp + ra_off) */
	RA_UNDEFINED = 2, /* outermost frame */
	RA_FP = 3,	  /* *(fp + ra_off) */
	RA_REG = 4,	  /* in the register with DWARF number ra_off, innermost frame only */
};

enum fp_kind {
	FP_SAME = 0,
	FP_CFA = 1,	  /* *(CFA + fp_off) */
	FP_SP = 2,	  /* *(sp + fp_off) */
	FP_FP = 3,	  /* *(fp + fp_off) */
	FP_UNDEFINED = 4, /* lost; becomes 0 */
};

#define RULE_SIGNAL 0x80 /* signal trampoline: the caller was interrupted, its pc is exact */
/* The byte before a function, and no call ends there: a return address behind it is no call's */
#define RULE_START 0x40
#define RULE_ENTRY 0x20 /* the function may be the first of a stack: a return address of 0 says that it is */
/* Both: a call of a function in the same file ends there. The return address is that of a frame in the same mapping
 * only. */
#define RULE_OWN_CALL (RULE_START | RULE_ENTRY)
#define RULE_REG 0x1f /* DWARF number of the register of CFA_REG; words of CFA_GO_GROW and LEAVE */

/*
 * How to get from a frame to its caller. For CFA_GO_CALL, GROW, LEAVE and RESUME: cfa_off is the place of the current
 * `g` from the thread pointer, ra_off that of `m` in a `g`, cfa_add that of the running goroutine in `m`, and fp_off
 * those of the saved sp (low half) and frame pointer in a `g`; `g0` is the first word of `m`, and the saved pc follows
 * the saved sp. If `g0` has no pc, C called into Go: above its sp is a frame of flags & RULE_REG words. For
 * CFA_GO_CALL_OF_C: cfa_off and ra_off are the places of the goroutine and of the distance from sp, cfa_add that of the
 * end of the stack in a `g`.
 */
struct rule {
	unsigned char cfa;
	unsigned char ra;
	unsigned char fp;
	unsigned char flags;
	int cfa_off;
	short cfa_add;
	short ra_off;
	int fp_off;
};

/* Precedes the page entries of a file; 4-word aligned in the table pool. */
struct page_table {
	unsigned int first_page; /* link-time address >> TEXT_PAGE_SHIFT of the first entry */
	unsigned int pages;	 /* number of entries that follow */
	unsigned int rules;	 /* address of the rules of the file, RULE_WORDS each; 4-word aligned */
	unsigned int use;	 /* place in `table_uses` */
};

/* Places for the last uses of tables. Where there are more tables, some share a place, and each counts as used when one
 * is. */
#define TABLE_USES 16384

/* The rows of one text page: sorted, each is `offset | rule << 16`; rule 0 is a gap. They never cross the boundary of a
 * chunk. */
struct page_entry {
	unsigned int rows;
	unsigned int count;
};

_Static_assert(sizeof(struct rule) == RULE_WORDS * 4, "16 bytes a rule");
_Static_assert(sizeof(struct page_table) == 16, "page table header");
_Static_assert(sizeof(struct page_entry) == 8, "page entry");

#endif
