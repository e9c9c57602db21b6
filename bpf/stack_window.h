/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Words of the user stack, read through a window: one copy of up to 4 KiB serves many frames, where a call of
 * the helper for each word would cost more than the rest of the step.
 */
#ifndef PERF_AGENT_WINDOW_H
#define PERF_AGENT_WINDOW_H

#include "walk_state.h"

static __always_inline void window_reset(struct walk *w)
{
	/* A window of one word, at an address that no stack has: words of another walk must not be found. */
	w->win_start = 1ULL << 63;
	*(u64 *)w->window = 0;
	w->win_last = 0;
	w->win_limit = 0;
	w->win_size = WINDOW_FIRST;
}

/* Moves the window to w->want. It ends with the page, or with the part of the stack known to be there, so that a
 * read does not fault for more than was asked. Non-zero: the word is not readable. */
__noinline int walk_fill(u32 slot)
{
	struct walk *w = walk_at(slot);
	u64 from, room, size;

	if (!w)
		return 1;
	from = w->want;
	room = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1));
	if (w->win_limit > from && w->win_limit - from > room)
		room = w->win_limit - from;
	size = w->win_size;
	if (size > WINDOW)
		size = WINDOW;
	w->win_size = size * 2;
	if (room < size)
		size = room & ~7ULL;
	if (size < 8)
		size = 8;
	/* The verifier does not see that size is at most WINDOW already. */
	keep_in_register(size);
	if (size > WINDOW)
		return 1;
	if (read_user(w->window, size, from)) {
		/* The limit belongs to another stack: this one does not reach as far. */
		w->win_limit = 0;
		size = 8;
		if (read_user(w->window, 8, from)) {
			window_reset(w);
			return 1;
		}
	}
	w->win_start = from;
	w->win_last = size - 8;
	return 0;
}

/*
 * Stack pointers need not be aligned. The pointer is a variable: from an expression clang would know that the window
 * consists of bytes, and load them one by one.
 */
static __always_inline u64 word_in_window(struct walk *w, u64 offset)
{
	u64 *word = (void *)&w->window[offset & (WINDOW - 1)];

	return *word;
}

/* What is in the window, while a loop goes through it. */
struct view {
	u64 start;
	u64 last;
};

static __always_inline struct view view_of(struct walk *w)
{
	return (struct view){.start = w->win_start, .last = w->win_last};
}

static __always_inline int view_word(struct walk *w, u32 slot, struct view *view, u64 address, u64 *word)
{
	u64 offset = address - view->start;

	if (__builtin_expect(offset > view->last, 0)) {
		w->want = address;
		if (walk_fill(slot))
			return 1;
		*view = view_of(w);
		offset = address - view->start;
	}
	*word = word_in_window(w, offset);
	return 0;
}

static __always_inline int read_word(struct walk *w, u32 slot, u64 address, u64 *word)
{
	struct view view = view_of(w);

	return view_word(w, slot, &view, address, word);
}

#endif
