/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The frame of an interrupted instruction in code without a table, by the code at the pc. Such code is walked by frame
 * pointer. In the first and the last instructions of a function the frame pointer is that of the caller, and a walk by
 * it would skip the caller: of small functions that is a third of the samples. The instructions from the pc on show
 * which:
 *
 *	push %rbp or ret come first		the return address is at sp
 *	mov %rsp, %rbp comes first		sp points to the saved rbp, or is N below it if add $N, %rbp follows
 *	mov %rbp, N(%rsp); mov %rsp, %rbp first	the return address is 8 above the place (HotSpot)
 *	pop %rbp, leave, another stack pointer	the frame is there
 *	neither within the bytes that are read	most likely the frame is there: that is counted
 *	mov %rbp, N(%rsp) alone			the same: it may save the caller's rbp, or spill any value
 *
 * A small decoder follows the code straight on, past conditional jumps: whichever way is taken, the frame at the pc is
 * the same.
 */
#ifndef PERF_AGENT_LEAF_CODE_H
#define PERF_AGENT_LEAF_CODE_H

#include "stack_window.h"

#ifndef LINK_REGISTER

#define LEAF_INSTRUCTIONS 10

enum leaf_verdict {
	LEAF_NEXT = 0,	    /* the instruction tells nothing */
	LEAF_UNDECIDED = 1, /* it is not known to the decoder, or control goes elsewhere */
	LEAF_FRAME = 2,	    /* rbp is a frame pointer */
	LEAF_FOUND = 3,	    /* the return address is w->code_cfa - 8 from sp, and rbp at 8 below it if w->code_saved */
};

static __always_inline u32 leaf_found(struct walk *w, u32 cfa, u32 saved)
{
	w->code_cfa = cfa;
	w->code_saved = saved;
	return LEAF_FOUND;
}

/* Little-endian, at any address. */
static __always_inline u32 code_word(const u8 *code)
{
	return code[0] | code[1] << 8 | code[2] << 16 | (u32)code[3] << 24;
}

/* Bytes of the operands of an instruction from its second byte on: mode, index and displacement. */
static __always_inline u32 operand_bytes(const u8 *code)
{
	u32 mode = code[1] >> 6, bytes = 1;

	if (mode == 3)
		return 1;
	if ((code[1] & 7) == 4) {
		bytes = 2;
		if (!mode && (code[2] & 7) == 5)
			return 6;
	} else if (!mode && (code[1] & 7) == 5) {
		return 5;
	}
	return bytes + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

/* Whether an operand is rsp or rbp: 4 and 5. `extended`: its fourth bit is set. */
static __always_inline bool is_frame_register(u32 number, u32 extended)
{
	return !extended && (number & 6) == 4;
}

/* mov %rsp, %rbp, in both encodings, without its prefix */
static __always_inline bool is_copy_of_sp(const u8 *code)
{
	return (code[0] == 0x89 && code[1] == 0xe5) || (code[0] == 0x8b && code[1] == 0xec);
}

/* mov %rbp, N(%rsp), without its prefix */
static __always_inline bool is_store_of_fp(const u8 *code)
{
	return code[0] == 0x89 && code[2] == 0x24 && (code[1] == 0x6c || code[1] == 0xac);
}

/* N of mov %rbp, N(%rsp): one byte with its sign, or four. */
static __always_inline u32 store_place(const u8 *code)
{
	return code[1] == 0x6c ? (u32)(s32)(signed char)code[3] : code_word(&code[3]);
}

/* Whether mov %rbp, N(%rsp) saves rbp in a frame: mov %rsp, %rbp follows. A place below rsp is no frame's. */
static __always_inline bool is_frame_store(const u8 *code)
{
	const u8 *next = code[1] == 0x6c ? &code[4] : &code[7];

	return next[0] == 0x48 && is_copy_of_sp(&next[1]) && !(store_place(code) >> 31);
}

/* What instructions with REX.W say that set up or use a frame. LEAF_NEXT: it is none of them. */
static __always_inline u32 frame_instruction(struct walk *w, const u8 *code, u32 first)
{
	u32 size;

	/* mov %rsp, %rbp; add $N, %rbp */
	if (is_copy_of_sp(code)) {
		size = 0;
		if (code[2] == 0x48 && code[3] == 0x83 && code[4] == 0xc5)
			size = code[5];
		else if (code[2] == 0x48 && code[3] == 0x81 && code[4] == 0xc5)
			size = code_word(&code[5]);
		return leaf_found(w, size + 16, 1);
	}
	/* add $N, %rbp, after mov %rsp, %rbp */
	if (first && w->fp == w->sp && code[1] == 0xc5) {
		if (code[0] == 0x83)
			return leaf_found(w, code[2] + 16, 1);
		if (code[0] == 0x81)
			return leaf_found(w, code_word(&code[2]) + 16, 1);
	}
	/* mov %rbp, N(%rsp) */
	if (is_store_of_fp(code))
		return is_frame_store(code) ? leaf_found(w, store_place(code) + 16, 0) : LEAF_UNDECIDED;
	/* sub $N, %rsp; mov %rbp, N - 8(%rsp) */
	if (code[0] == 0x83 && code[1] == 0xec && code[3] == 0x48 && is_store_of_fp(&code[4]) &&
	    store_place(&code[4]) + 8 == code[2])
		return is_frame_store(&code[4]) ? leaf_found(w, 8, 0) : LEAF_UNDECIDED;
	if (code[0] == 0x81 && code[1] == 0xec && code[6] == 0x48 && is_store_of_fp(&code[7]) &&
	    store_place(&code[7]) + 8 == code_word(&code[2]))
		return is_frame_store(&code[7]) ? leaf_found(w, 8, 0) : LEAF_UNDECIDED;
	return LEAF_NEXT;
}

/* Looks at the instruction at w->code_at, and goes to the next one. Returns enum leaf_verdict. */
__noinline int leaf_instruction(u32 slot)
{
	struct walk *w = walk_at(slot);
	u32 at, length, verdict, rex = 0, group, first;
	bool prefixed;
	const u8 *code;
	u8 op;

	if (!w)
		return LEAF_UNDECIDED;
	at = w->code_at;
	if (at >= LEAF_CODE)
		return LEAF_UNDECIDED;
	code = &w->code[at & (LEAF_CODE - 1)];
	first = !at;
	/* endbr64 */
	if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) {
		w->code_at = at + 4;
		return LEAF_NEXT;
	}
	/* rep ret, bnd ret */
	if ((code[0] == 0xf3 || code[0] == 0xf2) && code[1] == 0xc3)
		return leaf_found(w, 8, 0);
	/* An instruction of SSE, or one that does nothing. Others differ in the size of their immediate. */
	prefixed = code[0] == 0x66 || code[0] == 0xf3 || code[0] == 0xf2;
	if (prefixed) {
		code++;
		at++;
	}
	if ((code[0] & 0xf0) == 0x40) {
		rex = code[0];
		code++;
		at++;
	}
	op = code[0];
	if (prefixed && op != 0x0f && op != 0x90)
		return LEAF_UNDECIDED;
	if (op == 0xc3 || op == 0xc2)
		return leaf_found(w, 8, 0);
	if (op == 0x55 && !(rex & 1))
		return leaf_found(w, 8, 0);
	if ((op == 0x5d && !(rex & 1)) || op == 0xc9)
		return LEAF_FRAME;
	if (rex == 0x48) {
		verdict = frame_instruction(w, code, first);
		if (verdict != LEAF_NEXT)
			return verdict;
	}
	group = op & 7;
	length = 0;
	if (op < 0x40 && group < 4) {
		/* add, or, adc, sbb, and, sub, xor, cmp: the last one writes nothing. */
		length = 1 + operand_bytes(code);
		if (op < 0x38 && group < 2 && code[1] >= 0xc0 && is_frame_register(code[1], rex & 1))
			return LEAF_FRAME;
		if (op < 0x38 && group > 1 && is_frame_register(code[1] >> 3, rex & 4))
			return LEAF_FRAME;
	} else if (op < 0x40 && group < 6) {
		length = group == 4 ? 2 : 5;
	} else if (op == 0x84 || op == 0x85) {
		length = 1 + operand_bytes(code);
	} else if (op == 0x88 || op == 0x89) {
		length = 1 + operand_bytes(code);
		if (code[1] >= 0xc0 && is_frame_register(code[1], rex & 1))
			return LEAF_FRAME;
	} else if (op == 0x8a || op == 0x8b || op == 0x8d || op == 0x63) {
		length = 1 + operand_bytes(code);
		if (is_frame_register(code[1] >> 3, rex & 4))
			return LEAF_FRAME;
	} else if (op == 0x69 || op == 0x6b) {
		length = 1 + operand_bytes(code) + (op == 0x69 ? 4 : 1);
		if (is_frame_register(code[1] >> 3, rex & 4))
			return LEAF_FRAME;
	} else if (op == 0x80 || op == 0x81 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7) {
		length = 1 + operand_bytes(code) + (op == 0x81 || op == 0xc7 ? 4 : 1);
		/* cmp writes nothing. */
		if (code[1] >= 0xc0 && is_frame_register(code[1], rex & 1) && (op >= 0xc0 || (code[1] & 0x38) != 0x38))
			return LEAF_FRAME;
	} else if (op == 0xd1 || op == 0xd3) {
		length = 1 + operand_bytes(code);
		if (code[1] >= 0xc0 && is_frame_register(code[1], rex & 1))
			return LEAF_FRAME;
	} else if (op == 0xf6 || op == 0xf7) {
		length = 1 + operand_bytes(code);
		if (!(code[1] & 0x38))
			length += op == 0xf7 ? 4 : 1;
	} else if (op >= 0xb8 && op <= 0xbf) {
		length = rex & 8 ? 9 : 5;
		if (is_frame_register(op & 7, rex & 1))
			return LEAF_FRAME;
	} else if (op >= 0x70 && op <= 0x7f) {
		length = 2;
	} else if (op == 0x90 || op == 0x98 || op == 0x99) {
		length = 1;
	} else if (op == 0xa8 || op == 0xa9) {
		length = op == 0xa8 ? 2 : 5;
	} else if (op == 0x0f) {
		code++;
		at++;
		op = code[0];
		if (op >= 0x80 && op <= 0x8f)
			length = 5;
		else if (op == 0x1e || op == 0x1f || op == 0x10 || op == 0x11 || op == 0x18 || op == 0x28 ||
			 op == 0x29 || op == 0x2e || op == 0x2f || op == 0x6e || op == 0x6f || op == 0x7e ||
			 op == 0x7f || op == 0xd6 || op == 0xef || (op >= 0x51 && op <= 0x5f) ||
			 (op >= 0x90 && op <= 0x9f))
			length = 1 + operand_bytes(code);
		else if (op == 0xaf || op == 0x2a || op == 0x2c || op == 0x2d || op == 0xb6 || op == 0xb7 ||
			 op == 0xbe || op == 0xbf || (op >= 0x40 && op <= 0x4f))
			length = op != 0x2a && is_frame_register(code[1] >> 3, rex & 4) ? 0 : 1 + operand_bytes(code);
	}
	w->code_at = at + length;
	return length ? LEAF_NEXT : LEAF_UNDECIDED;
}

/* Reads the code at the pc of the frame that was taken down last. Returns enum leaf_verdict. */
__noinline int leaf_by_code(u32 slot)
{
	struct walk *w = walk_at(slot);
	u32 i, verdict;

	if (!w)
		return LEAF_UNDECIDED;
	w->code_at = 0;
	/* The last instruction may go beyond. A read that crosses into a page that is not there fails as a whole; that
	 * is counted as undecided. */
	if (read_user(w->code, sizeof(w->code), w->pc & FRAME_PC))
		return LEAF_UNDECIDED;
	for (i = 0; i < LEAF_INSTRUCTIONS; i++) {
		verdict = leaf_instruction(slot);
		if (verdict != LEAF_NEXT)
			return verdict;
	}
	return LEAF_UNDECIDED;
}

/*
 * For an interrupted instruction in code that no row covers: goes to its caller if the code shows that rbp is no frame
 * pointer there. Not 0: it did, or the walk ended and *ended is set.
 */
static __always_inline int step_by_code(struct walk *w, u32 slot, struct frame *f, int *ended)
{
	u64 sp = w->sp, cfa, ra;
	u32 verdict;

	if (!(f->pc & FRAME_EXACT))
		return 0;
	verdict = leaf_by_code(slot);
	if (verdict != LEAF_FOUND) {
		w->undecided |= verdict == LEAF_UNDECIDED;
		return 0;
	}
	cfa = sp + w->code_cfa;
	/* The memo reads words of the stack again, not code. */
	f->pc |= FRAME_NOT_IN_MEMO;
	*ended = 1;
	if (w->code_saved && read_word(w, slot, cfa - 16, &w->fp)) {
		w->end = WALK_FAULT;
		return 1;
	}
	if (read_word(w, slot, cfa - 8, &ra)) {
		w->end = WALK_FAULT;
		return 1;
	}
	if (!(ra & FRAME_PC)) {
		w->end = WALK_ZERO_FRAME;
		return 1;
	}
	*ended = 0;
	w->pc = ra & FRAME_PC;
	w->sp = cfa;
	return 1;
}

#else

static __always_inline int step_by_code(struct walk *w, u32 slot, struct frame *f, int *ended)
{
	return 0;
}

#endif

#endif
