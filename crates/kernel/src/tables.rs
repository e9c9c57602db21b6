//! Unwind tables in the table pool.

use profile::Svma;
use unwind::abi::PAGE_SHIFT;
use unwind::{PageSpan, Rule, Table};

use crate::Error;
#[cfg(test)]
use crate::abi::MAX_RULES;
use crate::abi::{CHUNK_WORDS, PAGE_TABLE_WORDS, RULE_WORDS};
use crate::rules::KeptRules;
use crate::table_pool::TablePool;
use crate::table_shape::{Part, TableShape};

/// An installed table, which the programs can use.
#[derive(Debug)]
pub struct TableHandle {
    /// Address of the page table in the table pool.
    pub(crate) address: u32,
    /// (start, words) of everything that was allocated for it: in the order of its shape, without parts of no words.
    parts: Vec<(u32, u32)>,
    shape: TableShape,
    /// Its number among the uses of tables.
    pub(crate) use_number: u32,
    rules_left_out: usize,
}

impl TableHandle {
    /// Bytes of the table pool that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, words)| *words as usize * 4).sum()
    }

    pub(crate) fn parts(&self) -> &[(u32, u32)] {
        &self.parts
    }

    /// The parts that a table would consist of.
    #[must_use]
    pub fn shape_for(table: &Table) -> TableShape {
        shape_with(&KeptRules::of(table), table)
    }

    /// The parts that it consists of.
    #[must_use]
    pub fn shape(&self) -> &TableShape {
        &self.shape
    }

    /// Rules of the file beyond those that one file may have. Where one of them holds, the programs end a walk with
    /// [`WalkEnd::UnsupportedRule`](crate::WalkEnd::UnsupportedRule).
    #[must_use]
    pub fn rules_left_out(&self) -> usize {
        self.rules_left_out
    }
}

/// Writes a table: first the rows and rules, then the pages that refer to them. The programs do not see it until a mapping refers
/// to it. Its uses are noted under `use_number`.
pub(crate) fn install(pool: &mut TablePool, table: &Table, use_number: u32) -> Result<TableHandle, Error> {
    let kept = KeptRules::of(table);
    let shape = shape_with(&kept, table);
    let mut parts = Vec::new();
    let result = write_table(pool, &kept, table, &shape, use_number, &mut parts);
    match result {
        Ok(address) => Ok(TableHandle { address, parts, shape, use_number, rules_left_out: kept.left_out }),
        Err(error) => {
            give(pool, parts);
            Err(error)
        }
    }
}

pub(crate) fn remove(pool: &mut TablePool, table: TableHandle) {
    give(pool, table.parts);
}

fn give(pool: &mut TablePool, parts: Vec<(u32, u32)>) {
    for (start, words) in parts {
        pool.give(start, words);
    }
}

/// Whether the installed table is equal to this one.
pub(crate) fn is_same(pool: &TablePool, handle: &TableHandle, table: &Table) -> bool {
    let words_are = |start: u32, words: &mut dyn Iterator<Item = u32>| {
        (start..).zip(words).all(|(at, word)| pool.read(at) == Some(word))
    };
    let kept = KeptRules::of(table);
    let head = [table.first_page as u32, table.pages.len() as u32];
    let rules_are_same = || {
        let rules = pool.read(handle.address + 2);
        rules.is_some_and(|rules| words_are(rules, &mut kept.rules.iter().flat_map(Rule::words)))
    };
    words_are(handle.address, &mut head.into_iter())
        && rules_are_same()
        && (0u32..).zip(&table.pages).all(|(number, page)| {
            let entry = handle.address + PAGE_TABLE_WORDS + 2 * number;
            let (Some(start), Some(count)) = (pool.read(entry), pool.read(entry + 1)) else { return false };
            count == page.count && words_are(start, &mut packed(table, page, &kept))
        })
}

/// The words of the rows of a page.
fn packed(table: &Table, page: &PageSpan, kept: &KeptRules<'_>) -> impl Iterator<Item = u32> {
    let from = page.first_row as usize;
    let rows = table.rows.get(from..from + page.count as usize).unwrap_or_default();
    rows.iter().map(|row| u32::from(row.offset) | u32::from(kept.number(row.rule)) << 16)
}

/// Finds the rule for an address, as the search in `bpf/tables.h` does over the same words.
pub(crate) fn lookup(pool: &TablePool, table: &TableHandle, address: Svma) -> Option<Rule> {
    let page = u32::try_from(address.0 >> PAGE_SHIFT).ok()?.checked_sub(pool.read(table.address)?)?;
    if page >= pool.read(table.address + 1)? {
        return None;
    }
    let entry = table.address + PAGE_TABLE_WORDS + 2 * page;
    let (rows, count) = (pool.read(entry)?, pool.read(entry + 1)?);
    let offset = (address.0 & ((1 << PAGE_SHIFT) - 1)) as u32;
    let (mut low, mut length) = (0, count);
    while length > 1 {
        let half = length / 2;
        if pool.read(rows + low + half)? & 0xffff <= offset {
            low += half;
        }
        length -= half;
    }
    let index = (count > 0).then(|| pool.read(rows + low))?? >> 16;
    if index == 0 {
        return None;
    }
    let rule = pool.read(table.address + 2)? + index * RULE_WORDS;
    Some(Rule::of_words([pool.read(rule)?, pool.read(rule + 1)?, pool.read(rule + 2)?, pool.read(rule + 3)?]))
}

fn shape_with(kept: &KeptRules<'_>, table: &Table) -> TableShape {
    let part = |words, align, in_one_chunk| Part { words, align, in_one_chunk };
    let pages = part(PAGE_TABLE_WORDS + 2 * table.pages.len() as u32, PAGE_TABLE_WORDS, false);
    let rules = part(RULE_WORDS * kept.rules.len() as u32, RULE_WORDS, false);
    let rows = groups(table).map(|(_, rows)| part(rows, 1, true));
    TableShape([pages, rules].into_iter().chain(rows).collect())
}

/// As many pages as fit into a chunk, so that one allocation serves them all: their number, and that of their rows.
fn groups(table: &Table) -> impl Iterator<Item = (usize, u32)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = next;
        let mut rows = 0;
        while next < table.pages.len() && rows + table.pages[next].count <= CHUNK_WORDS {
            rows += table.pages[next].count;
            next += 1;
        }
        (next > first).then_some((next - first, rows))
    })
}

fn write_table(
    pool: &mut TablePool,
    kept: &KeptRules<'_>,
    table: &Table,
    shape: &TableShape,
    use_number: u32,
    parts: &mut Vec<(u32, u32)>,
) -> Result<u32, Error> {
    // Reserve all words first, then create their chunks together.
    let mut starts = Vec::with_capacity(shape.0.len());
    for part in &shape.0 {
        let mut start = 0;
        if part.words > 0 {
            start = pool.reserve(part.words, part.align, part.in_one_chunk)?;
            parts.push((start, part.words));
        }
        starts.push(start);
    }
    pool.back(parts)?;

    let (address, rules) = (starts[0], starts[1]);
    pool.write(rules, kept.rules.iter().flat_map(Rule::words))?;
    let mut entries = vec![table.first_page as u32, table.pages.len() as u32, rules, use_number];
    let mut pages = table.pages.iter();
    for ((number, _), mut start) in groups(table).zip(starts.into_iter().skip(2)) {
        for page in pages.by_ref().take(number) {
            pool.write(start, packed(table, page, kept))?;
            entries.extend([start, page.count]);
            start += page.count;
        }
    }
    pool.write(address, entries)?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use unwind::Row;

    use super::*;

    #[test]
    fn a_table_with_too_many_rules_needs_no_room_for_those_that_are_left_out() {
        let rows = vec![Row { offset: 0, rule: 1 }; 1000];
        let with_rules = |count: usize| {
            let pages = vec![PageSpan { first_row: 0, count: 1000 }];
            let (rows, rules) = (rows.clone(), vec![Rule::NONE; count]);
            TableHandle::shape_for(&Table { pages, rows, rules, ..Table::default() }).bytes()
        };
        let head = 4 * (PAGE_TABLE_WORDS as usize + 2);
        assert_eq!(with_rules(10), head + 4000 + 16 * 10);
        // The first of those that are kept stands for all that are not.
        assert_eq!(with_rules(32_768), head + 4000 + 16 * MAX_RULES);
    }

    #[test]
    fn the_rows_of_many_pages_are_allocated_by_the_chunk() {
        let pages: Vec<PageSpan> =
            (0..5).map(|page| PageSpan { first_row: page * 7000, count: 7000 }).collect();
        let rows = vec![Row { offset: 0, rule: 0 }; 35_000];
        let table = Table { pages, rows, rules: vec![Rule::NONE], ..Table::default() };
        let words: Vec<u32> = TableHandle::shape_for(&table).0.iter().map(|part| part.words).collect();
        assert_eq!(words, [4 + 10, 4, 14_000, 14_000, 7000]);
        assert!(groups(&table).map(|(pages, _)| pages).eq([2, 2, 1]));
    }
}
