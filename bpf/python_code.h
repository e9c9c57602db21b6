/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Code objects of Python. Their name, file and line table are sent when a walk meets one for the first time, before the
 * stack that needs them: the frame holds the object meanwhile, and the process may end at once. An address may later be
 * that of another object, so each has a stamp, made of what it consists of.
 */
#ifndef PERF_AGENT_PYTHON_CODE_H
#define PERF_AGENT_PYTHON_CODE_H

#include "python_walk.h"

static __always_inline u64 word_of_code(struct python_walk *p, struct python *in, u32 field)
{
	u64 *word = (void *)&p->head[(field - in->code_from) & (PYTHON_FIELDS - 1)];

	return *word;
}

static __always_inline void find_string(struct python *in, u64 string, u32 most, struct python_part *part)
{
	u64 length = 0;
	u32 state = 0;

	part->kind = PYTHON_NO_STRING;
	part->bytes = 0;
	part->cut = true;
	if (read_user(&length, sizeof(length), string + in->str_length) ||
	    read_user(&state, sizeof(state), string + in->str_state))
		return;
	state >>= in->str_kind_shift & 31;
	/* Characters that do not follow the object belong to strings that names never are. */
	if (!(state & 8))
		return;
	part->kind = state & 7;
	part->from = string + (state & 16 ? in->str_ascii_bytes : in->str_wide_bytes);
	if (part->kind != 1 && part->kind != 2 && part->kind != 4) {
		part->kind = PYTHON_NO_STRING;
		return;
	}
	part->cut = length > most / part->kind;
	part->bytes = part->cut ? most : (u32)length * part->kind;
}

static __always_inline void find_bytes(struct python *in, u64 object, u32 most, struct python_part *part)
{
	u64 length = 0;

	part->bytes = 0;
	part->cut = true;
	part->from = object + in->bytes_bytes;
	if (read_user(&length, sizeof(length), object + in->bytes_length))
		return;
	part->cut = length > most;
	part->bytes = part->cut ? most : (u32)length;
}

/* Reads a part to an offset of the box. What cannot be read is not sent. */
#define read_part(part, bytes, at, most)                                                                               \
	do {                                                                                                           \
		u64 length = (part)->bytes;                                                                            \
                                                                                                                       \
		keep_in_register(length);                                                                              \
		if (length > (most))                                                                                   \
			length = 0;                                                                                    \
		if (read_user((bytes) + (at), length, (part)->from)) {                                                 \
			(part)->bytes = 0;                                                                             \
			(part)->cut = true;                                                                            \
		}                                                                                                      \
	} while (0)

/*
 * Sends the code object p->code, whose head is in p->head. Not 0: it did not fit into the ring. It is the innermost of
 * a chain of six functions, which have 512 bytes of stack together, so it keeps nothing there.
 */
__noinline int python_send_code(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct outbox *box = outbox_at(slot);
	struct python_part *name, *file, *table;
	struct python_code *code;
	struct python *in;
	u64 at, size;
	u8 *bytes;

	if (!p || !box)
		return 1;
	in = python_at(p->index);
	if (!in)
		return 1;
	code = (void *)&box->words[1];
	bytes = (u8 *)&box->words[1 + sizeof(*code) / 8];
	name = &p->name;
	file = &p->file;
	table = &p->table;
	find_string(in, word_of_code(p, in, in->code_name), PYTHON_NAME_BYTES, name);
	find_string(in, word_of_code(p, in, in->code_filename), PYTHON_FILE_BYTES, file);
	find_bytes(in, word_of_code(p, in, in->code_line_table), PYTHON_TABLE_BYTES, table);
	read_part(name, bytes, 0, PYTHON_NAME_BYTES);
	at = name->bytes;
	keep_in_register(at);
	at &= 2 * PYTHON_NAME_BYTES - 1;
	read_part(file, bytes, at, PYTHON_FILE_BYTES);
	at = name->bytes + file->bytes;
	keep_in_register(at);
	at &= 2 * PYTHON_FILE_BYTES - 1;
	read_part(table, bytes, at, PYTHON_TABLE_BYTES);
	code->address = p->code;
	code->stamp = p->stamp;
	code->first_line = (u32)word_of_code(p, in, in->code_first_line);
	code->name_bytes = name->bytes;
	code->file_bytes = file->bytes;
	code->table_bytes = table->bytes;
	code->name_kind = name->kind;
	code->file_kind = file->kind;
	code->cut =
	    (name->cut ? PYTHON_NAME_CUT : 0) | (file->cut ? PYTHON_FILE_CUT : 0) | (table->cut ? PYTHON_TABLE_CUT : 0);
	code->pad = 0;
	size = (sizeof(*code) + name->bytes + file->bytes + table->bytes + 7) & ~7ULL;
	box->words[0] = size << 32 | SECTION_CODE_OBJECT;
	size += 8;
	box->message.kind = MESSAGE_CODE;
	box->message.pid = p->pid;
	box->message.hash = p->code;
	box->message.exec_id = p->exec_id;
	box->message.bytes = (u32)size;
	return send_code(box, size);
}

/* Reads the head of the code object p->code and makes its stamp; sends the object unless that is done. */
__noinline int python_look(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct stamped_code *known;
	struct python *in;
	u64 hash, key;
	u32 version = 0;

	if (!p)
		return 0;
	in = python_at(p->index);
	if (!in)
		return 0;
	p->stamp = 0;
	if (read_user(p->head, PYTHON_CODE_BYTES, p->code + in->code_from)) {
		p->unreadable++;
		return 0;
	}
	if (in->code_version)
		version = (u32)word_of_code(p, in, in->code_version);
	hash = hash_mix(hash_seed(), (u64)version << 32 | (u32)word_of_code(p, in, in->code_first_line));
	hash = hash_mix(hash, word_of_code(p, in, in->code_name));
	hash = hash_mix(hash, word_of_code(p, in, in->code_filename));
	hash = hash_mix(hash, word_of_code(p, in, in->code_line_table));
	p->stamp = (u32)(hash >> 33);
	key = hash_mix(hash_mix(hash, p->code), p->program);
	if (!code_was_sent(key)) {
		if (python_send_code(slot)) {
			p->unsent++;
			return 0;
		}
		note_sent_code(key);
		p->sent++;
	}
	known = stamped(p, p->code);
	known->code = p->code;
	known->program = p->program;
	known->epoch = p->epoch;
	known->stamp = p->stamp;
	known->copy = 0;
	return 0;
}

/* Whether what is known of the code object p->code is of this epoch. */
static __always_inline bool is_of_epoch(struct python_walk *p, struct stamped_code *known)
{
	return known->code == p->code && known->program == p->program && known->epoch == p->epoch;
}

/* The stamp of the code object p->code. */
static __always_inline u32 python_stamp(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	struct stamped_code *known;

	if (!p)
		return 0;
	known = stamped(p, p->code);
	if (is_of_epoch(p, known))
		return known->stamp;
	python_look(slot);
	return p->stamp;
}

/* Without a global lock each thread may run its own copy of the instructions of a code object. Finds where the copy
 * p->copy of p->code begins. Not 0: that could not be read. */
__noinline int python_find_copy(u32 slot)
{
	struct python_walk *p = python_walk_at(slot);
	u64 copies = 0, count = 0, first = 0;
	struct stamped_code *known;
	struct python *in;

	if (!p)
		return 1;
	in = python_at(p->index);
	if (!in)
		return 1;
	known = stamped(p, p->code);
	if (is_of_epoch(p, known) && known->copy == p->copy) {
		p->first_unit = known->first_unit;
		return 0;
	}
	if (read_user(&copies, sizeof(copies), p->code + in->code_copies) || read_user(&count, sizeof(count), copies) ||
	    p->copy >= count || read_user(&first, sizeof(first), copies + 8 * (p->copy + 1ULL))) {
		p->unreadable++;
		return 1;
	}
	p->first_unit = first;
	if (is_of_epoch(p, known)) {
		known->copy = p->copy;
		known->first_unit = first;
	}
	return 0;
}

#endif
