//! Parts of functions that compilers place apart, such as code for errors, and the functions that they belong to.
//!
//! A part is tied to a function if both hold: it does not begin with the state of a call, and all direct jumps in the file into it come
//! from the code of this one function. The second alone also holds for functions that a single other one calls last. A direct call of the
//! part, or a jump from code of which it is not known which function it is in, keeps it apart.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::described::{Described, Kind, covering};
use crate::image::Image;
use crate::machine::Machine;

/// In a file with more code, parts stay apart.
const MAX_CODE: u64 = 512 << 20;
/// Bytes of code that are read before memory may be released.
const PIECE: u64 = 64 << 10;

/// A direct transfer of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    target: u64,
    is_call: bool,
}

/// The function of each part that has one, by the start of the part.
pub(super) fn parents(image: &Image<'_>, described: &[Described]) -> HashMap<u64, u64> {
    let size: u64 = image.code.iter().map(|code| code.end - code.start).sum();
    if size > MAX_CODE {
        return HashMap::new();
    }
    // `None`: more than one source, or one that is not known.
    let mut sources: HashMap<u64, Option<u64>> = HashMap::new();
    let mut enter = |from: Option<&Described>, transfer: Transfer| {
        let Some(to) = covering(described, transfer.target, Described::range) else { return };
        if to.kind != Kind::MaybePart || from.is_some_and(|from| from.start == to.start) {
            return;
        }
        let source =
            from.filter(|from| from.kind == Kind::Function && !transfer.is_call).map(|from| from.start);
        let known = sources.entry(to.start).or_insert(source);
        if *known != source {
            *known = None;
        }
    };
    for code in &image.code {
        let mut at = code.start;
        let first = described.partition_point(|function| function.range().end <= code.start);
        for function in described[first..].iter().take_while(|function| function.start < code.end) {
            transfers(image, at..function.start, |transfer| enter(None, transfer));
            transfers(image, function.range(), |transfer| enter(Some(function), transfer));
            at = function.range().end;
        }
        transfers(image, at..code.end, |transfer| enter(None, transfer));
    }
    sources.into_iter().filter_map(|(part, source)| Some((part, source?))).collect()
}

/// The parts that a function jumps to, itself or through other parts, without those that are within it; at most `max`.
pub(super) fn reached(
    image: &Image<'_>,
    described: &[Described],
    function: Range<u64>,
    max: usize,
) -> Vec<Range<u64>> {
    if function.end.saturating_sub(function.start) > MAX_CODE {
        return Vec::new();
    }
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut read = 0;
    let mut next = Some(function.clone());
    while let Some(code) = next {
        transfers(image, code, |transfer| {
            let Some(to) = covering(described, transfer.target, Described::range) else { return };
            let part = to.range();
            let is_new = !function.contains(&part.start) && !parts.contains(&part);
            if to.kind == Kind::MaybePart && !transfer.is_call && is_new && parts.len() < max {
                parts.push(part);
            }
        });
        next = parts.get(read).cloned();
        read += 1;
    }
    parts
}

/// The described code that contains the addresses, and all that it jumps to, directly or through other code. `None`: more than `max`.
pub(super) fn closure(
    image: &Image<'_>,
    described: &[Described],
    addresses: &[u64],
    max: usize,
) -> Option<Vec<Range<u64>>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut starts = HashSet::new();
    let mut add = |found: &mut Vec<Range<u64>>, address: u64| {
        let code = covering(described, address, Described::range).filter(|code| code.kind != Kind::Stubs);
        found.extend(code.map(Described::range).filter(|range| starts.insert(range.start)));
    };
    addresses.iter().for_each(|address| add(&mut found, *address));
    let mut read = 0;
    while let Some(code) = found.get(read).filter(|_| found.len() <= max).cloned() {
        transfers(image, code, |transfer| {
            if !transfer.is_call {
                add(&mut found, transfer.target);
            }
        });
        read += 1;
    }
    (found.len() <= max).then_some(found)
}

/// The described code that a range calls directly, at most `max` pieces.
pub(super) fn called(
    image: &Image<'_>,
    described: &[Described],
    from: Range<u64>,
    max: usize,
) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    transfers(image, from, |transfer| {
        let code = covering(described, transfer.target, Described::range).filter(|_| transfer.is_call);
        let Some(code) = code.map(Described::range) else { return };
        if found.len() < max && !found.contains(&code) {
            found.push(code);
        }
    });
    found
}

/// Calls `take` with the direct jumps and calls in code.
fn transfers(image: &Image<'_>, range: Range<u64>, take: impl FnMut(Transfer)) {
    let Some(len) = range.end.checked_sub(range.start).filter(|len| *len > 0) else { return };
    let Some(all) = image.file_range_at(range.start).and_then(|bytes| image.data.get(bytes)) else { return };
    let code = &all[..all.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
    if range.start / PIECE != range.end / PIECE {
        image.touch_all(len);
    }
    match image.machine {
        Machine::X86_64 => of_x86_64(code, range.start, take),
        Machine::Aarch64 => of_aarch64(code, range.start, take),
    }
}

fn of_x86_64(code: &[u8], start: u64, mut take: impl FnMut(Transfer)) {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let is_call = match instruction.flow_control() {
            FlowControl::Call => true,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => false,
            _ => continue,
        };
        if !instruction.is_invalid() {
            take(Transfer { target: instruction.near_branch_target(), is_call });
        }
    }
}

/// The bits of an instruction that tell its kind, their values, the position and the number of the bits of the distance in words.
const AARCH64_JUMPS: [(u32, u32, u32, u32); 4] = [
    // b, bl
    (0x7c00_0000, 0x1400_0000, 0, 26),
    // b.cond
    (0xff00_0000, 0x5400_0000, 5, 19),
    // cbz, cbnz
    (0x7e00_0000, 0x3400_0000, 5, 19),
    // tbz, tbnz
    (0x7e00_0000, 0x3600_0000, 5, 14),
];
/// Of `b` and `bl`, the bit that tells them apart.
const LINK: u32 = 0x8000_0000;

fn of_aarch64(code: &[u8], start: u64, mut take: impl FnMut(Transfer)) {
    for (position, word) in (0u64..).step_by(4).zip(code.as_chunks::<4>().0) {
        let word = u32::from_le_bytes(*word);
        let jump = AARCH64_JUMPS.iter().position(|(mask, bits, ..)| word & mask == *bits);
        let Some(kind) = jump else { continue };
        let (_, _, shift, bits) = AARCH64_JUMPS[kind];
        // Shifted up and down again, the distance has its sign.
        let words = ((word >> shift) << (32 - bits)).cast_signed() >> (32 - bits);
        let distance = i64::from(words) * 4;
        let target = start.wrapping_add(position).wrapping_add_signed(distance);
        take(Transfer { target, is_call: kind == 0 && word & LINK != 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_and_calls_of_aarch64_are_found() {
        // b +8; bl -4; b.eq +0x20; cbz x0, -8; tbnz w1, #3, +0x10; ret; br x0
        let words: [u32; 7] =
            [0x1400_0002, 0x97ff_ffff, 0x5400_0100, 0xb4ff_ffc0, 0x3718_0081, 0xd65f_03c0, 0xd61f_0000];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        of_aarch64(&code, 0x1000, |transfer| found.push((transfer.target, transfer.is_call)));
        assert_eq!(
            found,
            [(0x1008, false), (0x1000, true), (0x1028, false), (0x1004, false), (0x1020, false)]
        );
    }
}
