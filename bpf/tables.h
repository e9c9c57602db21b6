/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* From an address to its mapping, and from there to its unwind rule, in the table pool. */
#ifndef PERF_AGENT_TABLES_H
#define PERF_AGENT_TABLES_H

#include "walk_state.h"

/* Enough for 2^20 mappings; vm.max_map_count allows 65530 by default. */
#define MAPPING_STEPS 20
/* A text page holds at most one row for each word of a chunk. */
#define ROW_STEPS CHUNK_WORDS_SHIFT

enum find_result {
	FOUND = 0,
	FIND_NO_MAPPING = 1,
	FIND_BY_FP = 2,
	FIND_NOT_READY = 3,
	FIND_NO_ROW = 4,
	FIND_NOWHERE = 5,
};

static __always_inline struct mapping *mapping_in_pool(u32 address)
{
	struct chunk *chunk = chunk_at(address >> CHUNK_WORDS_SHIFT);

	if (!chunk)
		return NULL;
	return (struct mapping *)&chunk->words[address & (CHUNK_WORDS - 8)];
}

/* A rule by its address. It lies in one chunk, as it is aligned. */
static __always_inline struct rule *rule_in_pool(u32 address)
{
	struct chunk *chunk = chunk_at(address >> CHUNK_WORDS_SHIFT);

	if (!chunk)
		return NULL;
	return (struct rule *)&chunk->words[address & (CHUNK_WORDS - RULE_WORDS)];
}

/* Loads the mapping around w->want into w->map_*. */
__noinline int walk_map(u32 slot)
{
	struct walk *w = walk_at(slot);
	struct page_table *table;
	struct mapping *mapping;
	struct chunk *chunk;
	u32 low = 0, length, base, i;
	u64 at;

	if (!w || !w->count)
		return FIND_NO_MAPPING;
	at = w->want;
	length = w->count;
	base = w->mappings;
	for (i = 0; i < MAPPING_STEPS; i++) {
		u32 half = length >> 1;

		if (!half)
			break;
		mapping = mapping_in_pool(base + (low + half) * 8);
		if (!mapping)
			return FIND_NO_MAPPING;
		/* Addresses have fewer than 63 bits: no branch, see below. */
		low += half & ((u32)((at - mapping->start) >> 63) - 1);
		length -= half;
	}
	mapping = mapping_in_pool(base + low * 8);
	if (!mapping || at < mapping->start || at >= mapping->end)
		return FIND_NO_MAPPING;
	w->map_start = mapping->start;
	w->map_size = mapping->end - mapping->start;
	w->map_bias = mapping->bias;
	w->map_kind = mapping->kind;
	if (mapping->kind != MAPPING_TABLE)
		return FOUND;
	chunk = chunk_at(mapping->table >> CHUNK_WORDS_SHIFT);
	if (!chunk)
		return FIND_NO_MAPPING;
	table = (struct page_table *)&chunk->words[mapping->table & (CHUNK_WORDS - 4)];
	w->first_page = table->first_page;
	w->pages = table->pages;
	w->map_pages = mapping->table + sizeof(*table) / 4;
	w->map_rules = table->rules;
	if (w->generation >> 32)
		note_use(table->use, (u32)(w->generation >> 32));
	return FOUND;
}

/* Finds the rule for `at`; its address in the table pool goes to *rule. */
static __always_inline int find_rule(struct walk *w, u32 slot, u64 at, u32 *rule)
{
	u32 page, offset, rows, length, low = 0, i, address, index;
	struct page_entry *entry;
	struct chunk *chunk;
	u64 linked;

	if (at - w->map_start >= w->map_size) {
		w->map_size = 0;
		w->want = at;
		if (walk_map(slot) != FOUND)
			return FIND_NO_MAPPING;
	}
	if (w->map_kind != MAPPING_TABLE) {
		if (w->map_kind == MAPPING_NOWHERE)
			return FIND_NOWHERE;
		return w->map_kind == MAPPING_FP ? FIND_BY_FP : FIND_NOT_READY;
	}
	linked = at - w->map_bias;
	page = (u32)(linked >> TEXT_PAGE_SHIFT) - w->first_page;
	if (page >= w->pages)
		return FIND_NO_ROW;
	address = w->map_pages + page * 2;
	chunk = chunk_at(address >> CHUNK_WORDS_SHIFT);
	if (!chunk)
		return FIND_NO_ROW;
	entry = (struct page_entry *)&chunk->words[address & (CHUNK_WORDS - 2)];
	rows = entry->rows;
	length = entry->count;
	if (!length)
		return FIND_NO_ROW;
	chunk = chunk_at(rows >> CHUNK_WORDS_SHIFT);
	if (!chunk)
		return FIND_NO_ROW;
	offset = linked & ((1 << TEXT_PAGE_SHIFT) - 1);
	for (i = 0; i < ROW_STEPS && length > 1; i++) {
		u32 half = length >> 1, row = chunk->words[(rows + low + half) & (CHUNK_WORDS - 1)];

		/* Without a branch: the verifier would follow both sides of each. */
		low += half & ((s32)((row & 0xffff) - offset - 1) >> 31);
		length -= half;
	}
	index = chunk->words[(rows + low) & (CHUNK_WORDS - 1)] >> 16;
	*rule = w->map_rules + index * RULE_WORDS;
	return index ? FOUND : FIND_NO_ROW;
}

#endif
