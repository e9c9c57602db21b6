//! `co_linetable` of 3.10: pairs of bytes, the length of a stretch in bytes of code, and the signed distance of its line.

use super::stretch::{Stretch, line};

/// The distance that stands for "no line"; the next one is counted from the line before.
const NO_LINE: i8 = -128;

pub(super) fn stretches(first_line: u32, table: &[u8]) -> impl Iterator<Item = Stretch> {
    let mut number = i64::from(first_line);
    table.as_chunks::<2>().0.iter().map(move |[len, step]| {
        let len = u32::from(*len) / 2;
        match step.cast_signed() {
            NO_LINE => Stretch { len, line: None },
            step => {
                number += i64::from(step);
                Stretch { len, line: line(number) }
            }
        }
    })
}
