//! Functions with which a stack starts although nothing calls them.
//!
//! `makecontext` and libraries for coroutines write the address of a function on a new stack, in the place of the return
//! address of the stack's first function. A call returns to the code after it. So a return address is no call's if it is
//! the start of a function that follows padding: the function is the outermost frame. Return addresses are looked up one
//! byte before, which is the last byte of the padding; it gets the root rule. Only functions whose address the code of
//! the file takes get one, since each costs a row.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Mnemonic;

use crate::abi::Rule;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::pages::MAX_PADDING;

/// Code that is searched for addresses. Files with more are not searched: reading all of their code would cost more than
/// their tables.
const MAX_CODE: u64 = 32 << 20;
/// Programs that can be loaded anywhere are linked at lower addresses. Numbers in their code are not addresses.
pub(crate) const FIXED_FROM: u64 = 0x10_0000;

/// Root rules for the last byte of padding before functions whose address is taken. `functions`: those of `.eh_frame`.
pub(crate) fn layer(image: &Image<'_>, functions: &Layer, rules: &mut RuleSet) -> Layer {
    let mut layer = Layer::default();
    let after_padding = |pair: &&[crate::layer::Span]| {
        let (before, next) = (&pair[0], &pair[1]);
        before.padded && (1..=MAX_PADDING).contains(&next.start.saturating_sub(before.end))
    };
    // The starts of functions, and where the padding before them starts.
    let candidates: Vec<(u64, u64)> =
        functions.spans.windows(2).filter(after_padding).map(|pair| (pair[1].start, pair[0].end)).collect();
    let mut taken = vec![false; candidates.len()];
    let code_bytes: u64 = image.code.iter().map(|code| code.end - code.start).sum();
    if candidates.is_empty() || code_bytes > MAX_CODE {
        return layer;
    }
    for code in &image.code {
        let Some(bytes) = image.bytes_at(code.start) else { continue };
        let len = usize::try_from(code.end - code.start).unwrap_or(usize::MAX).min(bytes.len());
        image.touch_all(len as u64);
        taken_addresses(&bytes[..len], code.start, &mut |address| {
            if let Ok(index) = candidates.binary_search_by_key(&address, |(start, _)| *start) {
                taken[index] = true;
            }
        });
    }
    for (&(start, padding), _) in candidates.iter().zip(taken).filter(|(_, taken)| *taken) {
        if is_padding(image, padding, start) {
            layer.begin(start - 1);
            layer.row(start - 1, rules.intern(Rule::ROOT));
            layer.end(start);
        }
    }
    layer
}

/// Calls `each` for everything that can be an address in an instruction that loads one: `lea ADDRESS(%rip), %r`, and in a
/// program at a fixed address also `mov $ADDRESS, …` and `push $ADDRESS`. The code is searched at every byte, so other
/// numbers are among them.
fn taken_addresses(code: &[u8], start: u64, each: &mut impl FnMut(u64)) {
    let number = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let is_fixed = start >= FIXED_FROM;
    for (at, byte) in code.iter().enumerate() {
        match byte {
            0x8d if code.get(at + 1).is_some_and(|mode| mode & 0xc7 == 0x05) => {
                if let Some(offset) = number(at + 2) {
                    let next = start + at as u64 + 6;
                    each(next.wrapping_add_signed(i64::from(offset as i32)));
                }
            }
            0x68 | 0xb8..=0xbf if is_fixed => number(at + 1).into_iter().for_each(|n| each(n.into())),
            // After the mode byte there may be one more and a displacement.
            0xc7 if is_fixed => {
                (at + 2..at + 8).filter_map(number).for_each(|n| each(n.into()));
            }
            _ => {}
        }
    }
}

/// Whether the code from `from` to `to` is made of instructions that do nothing.
fn is_padding(image: &Image<'_>, from: u64, to: u64) -> bool {
    let code = image.bytes_at(from).and_then(|code| code.get(..usize::try_from(to - from).ok()?));
    let Some(code) = code else { return false };
    let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    decoder.iter().all(|instruction| matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(code: &[u8], start: u64) -> Vec<u64> {
        let mut all = Vec::new();
        taken_addresses(code, start, &mut |address| all.push(address));
        all
    }

    #[test]
    fn addresses_that_instructions_load() {
        // lea 0x10(%rip), %rax; lea -7(%rip), %r9; lea 8(%rax), %rax; call
        let code = [
            0x48, 0x8d, 0x05, 0x10, 0, 0, 0, 0x4c, 0x8d, 0x0d, 0xf9, 0xff, 0xff, 0xff, 0x48, 0x8d, 0x40, 8,
            0xe8, 0, 0, 0, 0,
        ];
        assert_eq!(taken(&code, 0x1000), [0x1017, 0x1007]);
        // mov $0x401020, %edi; mov $0x401030, %rcx; movq $0x401040, 8(%rax)
        let code = [
            0xbf, 0x20, 0x10, 0x40, 0, 0x48, 0xc7, 0xc1, 0x30, 0x10, 0x40, 0, 0x48, 0xc7, 0x40, 8, 0x40,
            0x10, 0x40, 0,
        ];
        let found = taken(&code, 0x40_1000);
        assert!(
            [0x40_1020, 0x40_1030, 0x40_1040].iter().all(|address| found.contains(address)),
            "{found:x?}"
        );
        assert_eq!(taken(&code, 0x1000), []);
        assert_eq!(taken(&code[..4], 0x40_1000), []);
        assert_eq!(taken(&[0x8d], 0), []);
    }
}
