//! Line tables of code objects, in the three forms that they had: pairs to 3.9, ranges in 3.10, locations from 3.11 on.
//!
//! Instructions are numbered from 1, in code units of two bytes; 0 stands for a function that has not begun its first one. Guaranteed: any
//! bytes are a table, and its lines are no more than its bytes. What a table does not tell has the first line of the function.

mod locations;
mod pairs;
mod ranges;
mod stretch;

use super::version::{Family, Version};
use stretch::Stretch;

/// The number of an instruction, from what a frame has: to 3.10 its field `f_lasti`, later the distance in bytes from the first code
/// unit to the address of the instruction. Both are negative in a frame that has not begun.
#[must_use]
pub fn instruction(version: Version, raw: u32) -> u32 {
    let raw = raw.cast_signed();
    let units = if (version.major, version.minor) == (3, 10) { raw } else { raw.div_euclid(2) };
    u32::try_from(units).map_or(0, |units| units + 1)
}

/// First instruction and line of each stretch of a code object, by instruction. Instructions before the first have the first line of the
/// function. Empty for a version whose tables are not known.
#[must_use]
pub fn lines(version: Version, first_line: u32, table: &[u8]) -> Vec<(u32, u32)> {
    match version.family() {
        Some(Family::HeapFrames) if version.minor < 10 => {
            collect(first_line, pairs::stretches(first_line, table))
        }
        Some(Family::HeapFrames) => collect(first_line, ranges::stretches(first_line, table)),
        Some(_) => collect(first_line, locations::stretches(first_line, table)),
        None => Vec::new(),
    }
}

fn collect(first_line: u32, stretches: impl Iterator<Item = Stretch>) -> Vec<(u32, u32)> {
    let mut lines: Vec<(u32, u32)> = Vec::new();
    let mut add = |from, line| {
        match lines.last_mut() {
            // An empty stretch before it.
            Some((last, of_last)) if *last == from => *of_last = line,
            _ => lines.push((from, line)),
        }
        if let [.., (_, before), (_, last)] = lines[..]
            && before == last
        {
            lines.pop();
        }
    };
    let mut at: u32 = 1;
    for stretch in stretches {
        add(at, stretch.line.unwrap_or(first_line));
        let Some(next) = at.checked_add(stretch.len) else { return lines };
        at = next;
    }
    add(at, first_line);
    lines
}

#[cfg(test)]
mod tests;
