//! The encoding of a table for the disk cache: versioned, checksummed, and completely validated by [`decode`].
//!
//! Little-endian. The header has magic number, format version, checksum of all following bytes, first page, numbers of
//! pages, rows and rules, and counters. Pages, rows and rules follow as in [`crate::abi`].

use crate::Error;
use crate::abi::PageSpan;
use crate::abi::Row;
use crate::abi::Rule;
use crate::table::Stats;
use crate::table::Table;

const MAGIC: [u8; 4] = *b"UWT\n";
/// Increases with every change of the format *and* of the compiler's result for the same file.
pub const FORMAT_VERSION: u32 = 14;
const HEADER_LEN: usize = 16 + 8 + 3 * 4 + 10 * 4;

/// Encodes a table, for [`decode`].
#[must_use]
pub fn encode(table: &Table) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + table.byte_size());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&table.first_page.to_le_bytes());
    for len in [table.pages.len(), table.rows.len(), table.rules.len()] {
        // More than u32::MAX elements cannot be decoded; the length check refuses such a file.
        out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    }
    table.stats.to_array().iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    for page in &table.pages {
        out.extend_from_slice(&page.first_row.to_le_bytes());
        out.extend_from_slice(&page.count.to_le_bytes());
    }
    for row in &table.rows {
        out.extend_from_slice(&row.offset.to_le_bytes());
        out.extend_from_slice(&row.rule.to_le_bytes());
    }
    for rule in &table.rules {
        out.extend_from_slice(&[rule.cfa, rule.ra, rule.fp, rule.flags]);
        out.extend_from_slice(&rule.cfa_off.to_le_bytes());
        out.extend_from_slice(&rule.cfa_add.to_le_bytes());
        out.extend_from_slice(&rule.ra_off.to_le_bytes());
        out.extend_from_slice(&rule.fp_off.to_le_bytes());
    }
    let sum = checksum(&out[16..]);
    out[8..16].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Decodes the result of [`encode`]. A decoded table is safe for the walker: every index is in range, rows are sorted
/// and every rule is known.
///
/// # Errors
/// Another version, a wrong length or checksum, or a broken invariant. Never panics. Allocates at most the length of
/// `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Table, Error> {
    let truncated = |need| Error::Truncated { have: bytes.len(), need };
    let (header, body) = bytes.split_at_checked(HEADER_LEN).ok_or(truncated(HEADER_LEN))?;
    if header[..4] != MAGIC || word(header, 4) != FORMAT_VERSION {
        return Err(Error::Version { expected: FORMAT_VERSION });
    }
    let [pages, rows, rules] = [24, 28, 32].map(|at| word(header, at) as usize);
    let (pages_len, rows_len, rules_len) = (pages as u64 * 8, rows as u64 * 4, rules as u64 * 16);
    if pages_len + rows_len + rules_len != body.len() as u64 {
        return Err(truncated(usize::try_from(pages_len + rows_len + rules_len).unwrap_or(usize::MAX)));
    }
    let sum = u64::from(word(header, 8)) | u64::from(word(header, 12)) << 32;
    if checksum(&bytes[16..]) != sum {
        return Err(Error::Checksum);
    }
    let (page_bytes, rest) = body.split_at(pages * 8);
    let (row_bytes, rule_bytes) = rest.split_at(rows * 4);
    let table = Table {
        first_page: u64::from(word(header, 16)) | u64::from(word(header, 20)) << 32,
        pages: page_bytes.as_chunks().0.iter().map(page_from).collect(),
        rows: row_bytes.as_chunks().0.iter().map(row_from).collect(),
        rules: rule_bytes.as_chunks().0.iter().map(rule_from).collect(),
        stats: Stats::from_array(std::array::from_fn(|i| word(header, 36 + i * 4))),
    };
    table.validate()?;
    Ok(table)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn page_from(b: &[u8; 8]) -> PageSpan {
    PageSpan { first_row: word(b, 0), count: word(b, 4) }
}

fn row_from(b: &[u8; 4]) -> Row {
    Row { offset: u16::from_le_bytes([b[0], b[1]]), rule: u16::from_le_bytes([b[2], b[3]]) }
}

fn rule_from(b: &[u8; 16]) -> Rule {
    Rule {
        cfa: b[0],
        ra: b[1],
        fp: b[2],
        flags: b[3],
        cfa_off: word(b, 4) as i32,
        cfa_add: i16::from_le_bytes([b[8], b[9]]),
        ra_off: i16::from_le_bytes([b[10], b[11]]),
        fp_off: word(b, 12) as i32,
    }
}

/// Detects torn writes and bit rot, not attacks. Four independent lanes run at memory speed.
fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(PRIME).rotate_left(29);
    let mut lanes = [1u64, 2, 3, 4];
    let (blocks, tail) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    for &byte in tail {
        lanes[0] = mix(lanes[0], u64::from(byte));
    }
    lanes.iter().fold(bytes.len() as u64, |sum, &lane| mix(sum, lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::cfa;

    fn small() -> Table {
        Table {
            first_page: 3,
            pages: vec![
                PageSpan { first_row: 0, count: 2 },
                PageSpan::default(),
                PageSpan { first_row: 2, count: 1 },
            ],
            rows: vec![Row { offset: 0, rule: 0 }, Row { offset: 16, rule: 1 }, Row { offset: 0, rule: 1 }],
            rules: vec![Rule::NONE, Rule { cfa: cfa::SP, cfa_off: 8, ra_off: -8, ..Rule::NONE }],
            stats: Stats { bad_fdes: 7, dropped_pages: 9, ..Stats::default() },
        }
    }

    #[test]
    fn a_table_survives_encoding() {
        let table = small();
        assert_eq!(decode(&encode(&table)), Ok(table));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = encode(&small());
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&broken).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn broken_invariants_are_refused_despite_a_valid_checksum() {
        let refused = |change: fn(&mut Table), what| {
            let mut table = small();
            change(&mut table);
            assert_eq!(decode(&encode(&table)), Err(Error::Invalid(what)));
        };
        refused(|t| t.rows[1].rule = 2, "rule index");
        refused(|t| t.rows[1].offset = 0, "order of rows");
        refused(|t| t.rows[2].offset = 1, "first row of a page");
        refused(|t| t.pages[2].first_row = 1, "page span");
        refused(|t| t.pages[2].count = 2, "page span");
        refused(|t| t.pages[2].count = 0, "rows outside of all pages");
        refused(|t| t.rules[0].cfa = 1, "rule 0");
        refused(|t| t.rules[1].cfa = 14, "rule");
        refused(|t| t.rules[1].cfa = 0, "rule");
        refused(|t| t.first_page = u64::MAX, "page number");
    }
}
