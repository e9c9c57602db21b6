//! `co_linetable` from 3.11 on: an entry per stretch, of a byte whose highest bit is set and bytes in which it is not.
//!
//! The first byte has the form of the entry and its length in code units. The bytes behind it begin with the distance of the line in the
//! forms that need more than a constant; columns follow, which are not read.

use super::stretch::{Stretch, line};

/// In the first byte of an entry, and in no other.
const FIRST: u8 = 0x80;
/// In each byte of a number but its last.
const CONTINUED: u8 = 0x40;

pub(super) fn stretches(first_line: u32, table: &[u8]) -> impl Iterator<Item = Stretch> {
    let mut number = i64::from(first_line);
    let mut rest = table;
    std::iter::from_fn(move || {
        let (first, behind) = rest.split_first()?;
        let end = behind.iter().position(|byte| byte & FIRST != 0).unwrap_or(behind.len());
        let (numbers, next) = behind.split_at_checked(end)?;
        rest = next;
        let len = u32::from(first & 7) + 1;
        let step = match (first >> 3) & 15 {
            15 => return Some(Stretch { len, line: None }),
            13 | 14 => signed(numbers),
            form @ 10..=12 => i64::from(form) - 10,
            _ => 0,
        };
        number = number.saturating_add(step);
        Some(Stretch { len, line: line(number) })
    })
}

/// The first number, with its sign in the lowest bit. Six bits of each byte count, the first ones lowest.
fn signed(bytes: &[u8]) -> i64 {
    let mut value: u64 = 0;
    for (position, byte) in (0u32..).step_by(6).zip(bytes) {
        value |= u64::from(byte & 0x3f).checked_shl(position).unwrap_or(0);
        if byte & CONTINUED == 0 {
            break;
        }
    }
    let size = (value >> 1).cast_signed();
    if value & 1 == 0 { size } else { -size }
}
