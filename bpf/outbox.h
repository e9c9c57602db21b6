/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Where a message is put together: sections of words, behind the head. */
#ifndef PERF_AGENT_OUTBOX_H
#define PERF_AGENT_OUTBOX_H

#include "abi.h"

/* Powers of two, so that a masked index stays inside: of native frames, and of a whole message. */
#define OUTBOX_NATIVE_WORDS 1024
#define OUTBOX_WORDS 2048
_Static_assert(MAX_USER_FRAMES + MAX_KERNEL_FRAMES + 5 < OUTBOX_NATIVE_WORDS,
	       "every stack fits, with the heads of its sections");
_Static_assert(OUTBOX_NATIVE_WORDS * 8 + MAX_INTERPRETED_FRAMES * sizeof(struct interpreted_frame) <= OUTBOX_WORDS * 8,
	       "interpreted frames fit behind it");

/* A message being put together. Of a stack, the kernel frames come first. */
struct outbox {
	struct message message;
	u64 words[OUTBOX_WORDS];
};

/* Where the kernel frames begin, behind the head of their section. */
#define OUTBOX_KERNEL_FRAMES 1

#endif
