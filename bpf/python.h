/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The walk of CPython's frames, after the native walk of the same stack. The walked thread is the interrupted one, so
 * its chain of frames does not change meanwhile. Frames that call each other lie side by side, so they are read through
 * a window. Nothing that is read is trusted: the number of frames and of bytes is bounded, and an address that cannot
 * be read ends the walk.
 */
#ifndef PERF_AGENT_PYTHON_H
#define PERF_AGENT_PYTHON_H

#include "python_code.h"

static __always_inline u64 word_of_window(struct python_walk *p, u32 at, u32 field)
{
	u64 *word = (void *)&p->window[(at & (PYTHON_WINDOW - 1)) + (field & (PYTHON_FIELDS - 1))];

	return *word;
}

/*
 * Moves the window to the frame p->frame. Callers lie below their callees in memory from 3.11 on, so it opens
 * downwards; it begins with the frame's page at the earliest, so that a read does not fault for more than was asked.
 */
__noinline int python_fill(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct python *in;
	u64 from, end, size;

	if (!p)
		return 1;
	in = python_at(p->index);
	if (!in)
		return 1;
	end = p->frame + in->frame_bytes;
	from = end - p->next_size;
	if (from > p->frame || from < (p->frame & ~(SMALLEST_PAGE - 1ULL)))
		from = p->frame & ~(SMALLEST_PAGE - 1ULL);
	/* The last frame was on another page: the next one may be anywhere. */
	if (p->frame - p->win_start + SMALLEST_PAGE > 2 * SMALLEST_PAGE) {
		from = p->frame;
		p->next_size = WINDOW_FIRST;
	} else if (p->next_size < PYTHON_WINDOW) {
		p->next_size *= 2;
	}
	size = end - from;
	if (size > PYTHON_WINDOW) {
		from = p->frame;
		size = in->frame_bytes;
	}
	keep_in_register(size);
	if (size > PYTHON_WINDOW || read_user(p->window, size, from))
		return 1;
	p->win_start = from;
	p->win_last = size - in->frame_bytes;
	return 0;
}

/* Puts a frame behind the others. False: there are too many. */
static __always_inline bool python_push(struct python_walk *p, u64 code, u32 instruction, u32 marks)
{
	struct interpreted_frame *to;

	if (p->total >= MAX_INTERPRETED_FRAMES)
		return false;
	to = &p->frames[p->total & (MAX_INTERPRETED_FRAMES - 1)];
	to->code = code;
	to->instruction = instruction;
	to->marks = marks;
	p->hash = hash_mix(hash_mix(p->hash, code), (u64)marks << 32 | instruction);
	p->total++;
	return true;
}

/* The frame before is where an evaluator began. Without one, or if another evaluator began there, this one has no
 * frame. */
static __always_inline bool python_outermost(struct python_walk *p)
{
	struct interpreted_frame *last = &p->frames[(p->total - 1) & (MAX_INTERPRETED_FRAMES - 1)];

	if (!p->total || last->marks & INTERPRETED_OUTERMOST)
		return python_push(p, 0, 0, INTERPRETED_OUTERMOST);
	last->marks |= INTERPRETED_OUTERMOST;
	p->hash = hash_mix(p->hash, INTERPRETED_OUTERMOST);
	return true;
}

/* How a walk ends that has come to the end of the chain. */
static __always_inline u32 python_end_of_chain(struct python_walk *p)
{
	struct interpreted_frame *last = &p->frames[(p->total - 1) & (MAX_INTERPRETED_FRAMES - 1)];

	if (!p->total)
		return PYTHON_NO_FRAME;
	return last->marks & INTERPRETED_OUTERMOST ? PYTHON_ROOT : PYTHON_OPEN;
}

/* The address of the first instruction of what the frame runs that lies in the window from here on: of the code object
 * p->code, or of the thread's copy. */
static __always_inline u64 python_first_unit(u32 slot, u32 at)
{
	struct python_walk *p = python_walk_at(slot);
	struct python *in;

	if (!p)
		return 0;
	in = python_at(p->index);
	if (!in)
		return 0;
	if (in->code_copies) {
		p->copy = (u32)word_of_window(p, at, in->frame_copy);
		if (p->copy)
			/* As of a function that has not begun. */
			return python_find_copy(slot) ? word_of_window(p, at, in->frame_instruction) + 2
						      : p->first_unit;
	}
	return p->code + in->code_first_unit;
}

/* Takes the frame p->frame and goes on to its caller. */
__noinline int python_step(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	u64 offset, code, word;
	struct python *in;
	u32 at, stamp, marks = 0;
	u8 entry;

	if (!p)
		return DONE;
	in = python_at(p->index);
	if (!in)
		return DONE;
	offset = p->frame - p->win_start;
	if (offset > p->win_last) {
		if (python_fill(slot)) {
			p->end = PYTHON_FAULT;
			return DONE;
		}
		offset = p->frame - p->win_start;
	}
	at = (u32)offset;
	entry = (u8)word_of_window(p, at, in->frame_entry);
	if (in->family >= PYTHON_SHIMS && entry >= PYTHON_OWNED_BY_C_STACK) {
		if (!python_outermost(p))
			return DONE;
	} else {
		code = word_of_window(p, at, in->frame_code);
		if (in->tagged)
			code &= ~3ULL;
		p->code = code;
		stamp = python_stamp(slot);
		word = word_of_window(p, at, in->frame_instruction);
		if (in->family != PYTHON_HEAP_FRAMES)
			word -= python_first_unit(slot, at);
		if (in->family == PYTHON_HEAP_FRAMES || (in->family == PYTHON_ENTRY_FRAMES && entry))
			marks = INTERPRETED_OUTERMOST;
		if (!python_push(p, code, (u32)word, stamp << INTERPRETED_STAMP_SHIFT | marks))
			return DONE;
	}
	p->frame = word_of_window(p, at, in->frame_previous);
	if (in->tagged)
		p->frame &= ~3ULL;
	if (p->frame && p->frame != p->base_frame)
		return MORE;
	p->end = python_end_of_chain(p);
	return DONE;
}

__noinline int python_batch(u32 slot)
{
	u32 i;

	for (i = 0; i < BATCH; i++)
		if (python_step(slot))
			return DONE;
	return MORE;
}

static __always_inline bool in_range(struct python_range *range, u64 address)
{
	return address - range->start < range->end - range->start;
}

static __always_inline bool in_evaluator(struct python *in, u64 pc)
{
	return in_range(&in->evaluator[0], pc) || in_range(&in->evaluator[1], pc) || in_range(&in->evaluator[2], pc);
}

/* Frames outward of the innermost one in which the next evaluator frame is searched. */
#define PYTHON_SEARCHED 128

/*
 * 3.11 and 3.12 enter p->frame, which is a _PyCFrame on the stack, into the chain before they fill it in. Until then
 * its words are those of an earlier call. The call counts as not begun: p->frame becomes the _PyCFrame of the next
 * evaluator frame outward, which has the same place in its native frame; 0: there is none.
 */
__noinline int python_outer_cframe(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct walk *w = walk_at(slot);
	struct python *in;
	struct memo *m;
	u64 distance;
	u32 at, i;

	if (!p || !w)
		return 1;
	in = python_at(p->index);
	m = memo_at(w->memo);
	if (!in || !m || !in_range(&in->before_dispatch, w->start_pc & FRAME_PC) || w->total < 2)
		return 0;
	distance = p->frame - w->start_sp;
	at = w->total - 2;
	if (distance >= m->frames[at & (MAX_USER_FRAMES - 1)].sp - w->start_sp)
		return 0;
	p->flags |= PYTHON_HALF_LINKED;
	p->frame = 0;
	for (i = 0; i < PYTHON_SEARCHED; i++) {
		struct frame *f = &m->frames[at & (MAX_USER_FRAMES - 1)];

		/* The address after a call may be behind the last one of the function. */
		if (in_evaluator(in, (f->pc & FRAME_PC) - !(f->pc & FRAME_EXACT))) {
			p->frame = f->sp + distance;
			break;
		}
		if (!at)
			break;
		at--;
	}
	return 0;
}

/* Reads the thread state at an address into the window. */
static __always_inline bool read_state(struct python_walk *p, u64 state)
{
	return !read_user(p->window, PYTHON_STATE_BYTES, state);
}

/* Finds the state of this thread and reads it into the window. Returns how the walk ends, or PYTHON_ENDS. */
static __always_inline u32 find_state(struct python_walk *p, struct python *in)
{
	u64 pointer = thread_pointer(), at = pointer, state = 0, current = 0, owner = 0;

	if (!pointer)
		return PYTHON_NO_STATE;
	if (in->slot_table && read_user(&at, sizeof(at), pointer + in->slot_table))
		return PYTHON_FAULT;
	if (at && in->slot_block && read_user(&at, sizeof(at), at + in->slot_block))
		return PYTHON_FAULT;
	/* Threads that never met the interpreter have no table and no block. */
	if (!at || at == ~0ULL)
		return PYTHON_NO_STATE;
	if (read_user(&state, sizeof(state), at + (s64)in->slot))
		return PYTHON_FAULT;
	/* To 3.11 the slot keeps the state of the first interpreter, while another one may run; a program that makes
	 * states by itself may leave it empty. */
	if (in->runtime_tstate_current &&
	    !read_user(&current, sizeof(current), in->runtime + in->runtime_tstate_current) && current &&
	    current != state && !read_user(&owner, sizeof(owner), current + in->tstate_thread_id) && owner == pointer)
		state = current;
	if (!state)
		return PYTHON_NO_STATE;
	if (!read_state(p, state))
		return PYTHON_FAULT;
	if (word_of_window(p, 0, in->tstate_thread_id) != pointer)
		return PYTHON_OTHER_THREAD;
	return PYTHON_ENDS;
}

/* Finds the innermost frame. Returns how the walk ends, or PYTHON_ENDS. */
static __always_inline u32 find_frame(struct python_walk *p, struct python *in, u32 slot)
{
	u64 interp = word_of_window(p, 0, in->tstate_interp);
	u32 counter = 0, copies = 0;

	p->frame = word_of_window(p, 0, in->tstate_frame);
	p->base_frame = in->tstate_base_frame ? word_of_window(p, 0, in->tstate_base_frame) : 0;
	if (p->frame == p->base_frame)
		return PYTHON_NO_FRAME;
	/* A count of 0 has overflowed and tells nothing. */
	if (in->interp_code_counter && !read_user(&counter, sizeof(counter), interp + in->interp_code_counter) &&
	    counter &&
	    !(in->interp_copies_counter && read_user(&copies, sizeof(copies), interp + in->interp_copies_counter)))
		p->epoch = PYTHON_COUNTED | (u64)copies << 32 | counter;
	if (p->frame && (in->family == PYTHON_ENTRY_FRAMES || in->family == PYTHON_SHIMS)) {
		if (python_outer_cframe(slot))
			return PYTHON_FAULT;
		/* There is no evaluator frame outward. */
		if (!p->frame)
			return PYTHON_ROOT;
		if (read_user(&p->frame, sizeof(p->frame), p->frame + in->cframe_current_frame))
			return PYTHON_FAULT;
	}
	return p->frame ? PYTHON_ENDS : PYTHON_NO_FRAME;
}

/* Walks the Python frames of the current thread: p->index and the process are set, and the native walk is done. */
__noinline int python_run(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct python *in;
	u32 i, end;

	if (!p)
		return 1;
	p->total = 0;
	p->flags = 0;
	p->hash = hash_seed();
	p->program = hash_mix(hash_mix(hash_seed(), p->exec_id), p->pid);
	p->end = PYTHON_FAULT;
	p->epoch = ++p->walks;
	in = python_at(p->index);
	if (!in)
		return 1;
	end = find_state(p, in);
	if (end == PYTHON_ENDS)
		end = find_frame(p, in, slot);
	p->end = end;
	if (end != PYTHON_ENDS)
		return 0;
	/* A window beside the frame. */
	p->win_start = p->frame + 8;
	p->win_last = 0;
	p->next_size = WINDOW_FIRST;
	p->end = PYTHON_LIMIT;
	/* Each frame may be followed by one of no function. */
	for (i = 0; i <= 2 * MAX_INTERPRETED_FRAMES / BATCH; i++)
		if (python_batch(slot))
			break;
	return 0;
}

#endif
