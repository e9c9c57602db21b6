//! `co_lnotab`, to 3.9: pairs of bytes, the distance to the next stretch in bytes of code, and the signed distance of its line.

use super::stretch::{Stretch, line};

/// Of the last stretch the table does not tell the end.
const TO_THE_END: u32 = u32::MAX;

pub(super) fn stretches(first_line: u32, table: &[u8]) -> impl Iterator<Item = Stretch> {
    let mut pairs = table.as_chunks::<2>().0.iter();
    let mut number = i64::from(first_line);
    let mut is_over = false;
    // Bytes of code; stretches may begin in the middle of a unit in a damaged table only.
    let (mut bytes, mut units) = (0u64, 0u64);
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let Some([len, step]) = pairs.next() else {
            is_over = true;
            return Some(Stretch { len: TO_THE_END, line: line(number) });
        };
        bytes += u64::from(*len);
        let stretch = Stretch { len: (bytes.div_ceil(2) - units) as u32, line: line(number) };
        units = bytes.div_ceil(2);
        number += i64::from(step.cast_signed());
        Some(stretch)
    })
}
