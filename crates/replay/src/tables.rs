//! Tables and mappings as words of the table pool, laid out as `bpf/abi/tables.h` says.

use unwind::Rule;
use unwind::Table;

use crate::Error;
use crate::abi::{CHUNK_WORDS, MAX_RULES};
use crate::table_pool::TablePool;

/// Writes a table; gives the address in the table pool of its page table.
pub(crate) fn install(pool: &mut TablePool, table: &Table) -> Result<u32, Error> {
    if table.rules.len() > MAX_RULES {
        return Err(Error::TooManyRules(MAX_RULES));
    }
    let address = pool.take(4 + 2 * table.pages.len() as u32, 4)?;
    let rules = pool.take(4 * table.rules.len() as u32, 4)?;
    pool.write(rules, table.rules.iter().flat_map(Rule::words));
    // The place of its uses: the address itself, as tests have few tables.
    let mut entries = vec![table.first_page as u32, table.pages.len() as u32, rules, address / 4];
    for page in &table.pages {
        let start = pool.take_in_one_chunk(page.count)?;
        let rows = &table.rows[page.first_row as usize..][..page.count as usize];
        let packed = rows.iter().map(|row| u32::from(row.offset) | u32::from(row.rule) << 16);
        pool.write(start, packed);
        entries.extend([start, page.count]);
    }
    pool.write(address, entries);
    Ok(address)
}

/// `struct mapping`.
pub(crate) struct RawMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bias: u64,
    pub(crate) table: u32,
    pub(crate) kind: u32,
}

/// Writes the mappings of a process, sorted by start; gives the address in the table pool of the first.
pub(crate) fn install_mappings(pool: &mut TablePool, mappings: &[RawMapping]) -> Result<u32, Error> {
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let address = pool.take(8 * mappings.len() as u32, 8)?;
    let words = mappings.iter().flat_map(|mapping| {
        let ([a, b], [c, d], [e, f]) = (halves(mapping.start), halves(mapping.end), halves(mapping.bias));
        [a, b, c, d, e, f, mapping.table, mapping.kind]
    });
    pool.write(address, words);
    Ok(address)
}

const _: () = assert!(size_of::<Rule>() == 16);
const _: () = assert!(unwind::abi::MAX_ROWS_PER_PAGE == CHUNK_WORDS as usize);
