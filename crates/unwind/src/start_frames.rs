//! Where stacks start although nothing calls the function.
//!
//! `makecontext` and libraries for coroutines put a function on a new stack. In the place of its return address they
//! write 0, or the address of another function that a return is to run. Two marks in rules let a walk end there:
//!
//! - [`crate::abi::START`]: a call returns to the code after it. So a return address is no call's if it is the first byte
//!   of a function and no call ends there. Return addresses are looked up one byte before, so the last byte before the
//!   function has the mark. It costs a row for each function. The other function never ran, so walks do not show it. A
//!   function that loads the stack pointer first is an exception: it is entered by returns only, as `__start_context` of
//!   glibc, and has a root rule of its own, which is shown.
//! - [`crate::abi::ENTRY`]: a return address of 0 is the root only where a stack can begin. In code with frame
//!   information that is a function whose address the code of the file takes; everywhere else 0 is an error of the walk.

use std::ops::Range;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Mnemonic;

use crate::abi::ENTRY;
use crate::abi::Rule;
use crate::abi::START;
use crate::cfi::section::Cie;
use crate::cfi::section::Fde;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::machine::Machine;
use crate::pages::MAX_PADDING;
use crate::stub_sections::stubs;

/// Code that is searched for addresses and calls. Files with more are not searched: reading all of their code would cost
/// more than their tables.
const MAX_CODE: u64 = 32 << 20;
/// Programs that can be loaded anywhere are linked at lower addresses. Numbers in their code are not addresses.
pub(crate) const FIXED_FROM: u64 = 0x10_0000;
/// Sections of stubs that are looked at.
const MAX_STUBS: usize = 8;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

fn is_searched(image: &Image<'_>) -> bool {
    image.machine == Machine::X86_64
        && image.code.iter().map(|code| code.end - code.start).sum::<u64>() <= MAX_CODE
}

/// The rules for the bytes before functions.
pub(crate) struct StartRows<'i, 'a> {
    image: &'i Image<'a>,
    is_searched: bool,
    stubs: Vec<Range<u64>>,
    /// The range of code at hand: its start and its bytes.
    code: (u64, &'a [u8]),
    /// The number of the 64 KiB that were read last.
    place: u64,
}

impl<'i, 'a> StartRows<'i, 'a> {
    pub(crate) fn new(image: &'i Image<'a>) -> Self {
        let mut stubs = stubs(image);
        stubs.truncate(MAX_STUBS);
        Self { image, is_searched: is_searched(image), stubs, code: (0, &[]), place: 0 }
    }

    /// The rule for the byte before a function. `end` is where the code of the function before ends, and `last` its last
    /// rule. `None`: the byte may be the last one of a call that leads to another file, or there is no function.
    pub(crate) fn before(
        &mut self,
        fde: &Fde<'_>,
        cie: &Cie<'_>,
        end: u64,
        last: impl FnOnce() -> Rule,
    ) -> Option<Rule> {
        let gap = fde.start.checked_sub(end).filter(|gap| *gap <= MAX_PADDING)?;
        if self.image.machine != Machine::X86_64 || !is_function(fde, cie) {
            return None;
        }
        if !self.is_searched {
            return (gap > 0).then_some(Rule::START);
        }
        let (before, code) = self.around(fde.start)?;
        let padding = before.get(before.len().checked_sub(gap as usize)?..)?;
        let is_call = ends_with_call(before) && (gap == 0 || !is_padding(padding));
        if is_call && (gap > 0 || !self.calls_own_code(before, fde.start)) {
            return None;
        }
        if gap == 0 {
            // The last instruction of the function before may be interrupted, and the call may be its caller's.
            let marks = if is_call { START | ENTRY } else { START };
            return Some(last())
                .filter(Rule::has_caller)
                .map(|last| Rule { flags: last.flags | marks, ..last });
        }
        Some(if loads_stack_pointer(code) { Rule::ROOT } else { Rule::START })
    }

    /// Whether the code before an address ends with a direct call into this file, past its stubs of linkage.
    fn calls_own_code(&self, before: &[u8], address: u64) -> bool {
        let Some((&[opcode, a, b, c, d], _)) =
            before.len().checked_sub(5).and_then(|from| before[from..].split_first_chunk())
        else {
            return false;
        };
        let target = address.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])));
        let in_stubs = || self.stubs.iter().any(|stubs| stubs.contains(&target));
        opcode == 0xe8
            && !self.image.layout.sections.is_empty()
            && self.image.code_at(target).is_some()
            && !in_stubs()
    }

    /// The code before an address, and from there on.
    fn around(&mut self, address: u64) -> Option<(&'a [u8], &'a [u8])> {
        let (start, bytes) = self.code;
        if !(start..start + bytes.len() as u64).contains(&address) {
            let range = self.image.code_at(address)?;
            let bytes = self.image.bytes_at(range.start)?;
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(bytes.len());
            self.code = (range.start, &bytes[..len]);
        }
        if self.place != address >> 16 {
            self.place = address >> 16;
            self.image.touch();
        }
        let (start, bytes) = self.code;
        bytes.split_at_checked(usize::try_from(address.checked_sub(start)?).ok()?)
    }
}

/// Whether a description is that of a function from its first instruction on, by the row there: a part of a function
/// begins with a frame.
fn is_function(fde: &Fde<'_>, cie: &Cie<'_>) -> bool {
    let advances = matches!(fde.instructions.first(), None | Some(0 | 0x02..=0x04 | 0x40..=0x7f));
    advances && !cie.signal && cie.initial.cfa == cie.factors.machine.cfa_at_entry()
}

/// Whether the bytes before an address can be those of a call. This is no proof: others may look the same.
fn ends_with_call(code: &[u8]) -> bool {
    let last = |n: usize| code.len().checked_sub(n).map(|from| &code[from..]);
    // The second byte has 2 in its middle bits; its low bits name a register or, as 4, a further byte.
    let indirect = |n: usize, mode: u8, is_extended: bool| {
        let Some([0xff, second, ..]) = last(n) else { return false };
        second & 0xf8 == mode | 0x10 && (second & 7 == 4) == is_extended
    };
    matches!(last(5), Some([0xe8, ..]))
        || matches!(last(2), Some([0xff, 0xd0..=0xd7]))
        || matches!(last(6), Some([0xff, 0x15, ..]))
        || indirect(2, 0, false)
        || indirect(3, 0, true)
        || indirect(3, 0x40, false)
        || indirect(4, 0x40, true)
        || indirect(6, 0x80, false)
        || indirect(7, 0x80, true)
}

/// Whether the first instruction, possibly after `endbr64`, is `mov %REGISTER, %rsp`: then nothing calls the function.
fn loads_stack_pointer(code: &[u8]) -> bool {
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    match *code {
        [0x48 | 0x4c, 0x89, mode, ..] => mode & 0xc7 == 0xc4,
        [0x48 | 0x49, 0x8b, mode, ..] => mode & 0xf8 == 0xe0,
        _ => false,
    }
}

/// Whether code is made of instructions that do nothing.
fn is_padding(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    decoder.iter().all(|instruction| matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3))
}

/// Marks the rules of functions whose address the code takes. `functions`: those of `.eh_frame`.
pub(crate) fn mark_entries(image: &Image<'_>, functions: &mut Layer, rules: &mut RuleSet) {
    if !is_searched(image) || functions.spans.is_empty() {
        return;
    }
    let mut taken = vec![false; functions.spans.len()];
    for code in &image.code {
        let Some(bytes) = image.bytes_at(code.start) else { continue };
        let len = usize::try_from(code.end - code.start).unwrap_or(usize::MAX).min(bytes.len());
        image.touch_all(len as u64);
        taken_addresses(&bytes[..len], code.start, &mut |address| {
            if let Ok(index) = functions.spans.binary_search_by_key(&address, |span| span.start) {
                taken[index] = true;
            }
        });
    }
    for (index, _) in taken.into_iter().enumerate().filter(|(_, taken)| *taken) {
        functions.change(index, |number| {
            let rule = rules.rule(number);
            // Without space for another rule the mark is left out.
            if rule.has_caller() && rule.flags & START == 0 && rules.has_space() {
                rules.intern(Rule { flags: rule.flags | ENTRY, ..rule })
            } else {
                number
            }
        });
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(code: &[u8], start: u64) -> Vec<u64> {
        let mut all = Vec::new();
        taken_addresses(code, start, &mut |address| all.push(address));
        all
    }

    #[test]
    fn bytes_of_calls() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x13],
            &[0xff, 0x14, 0xc1],
            &[0xff, 0x53, 8],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x93, 0, 1, 0, 0],
            &[0xff, 0x94, 0xc1, 0, 1, 0, 0],
            &[0xff, 0x15, 1, 2, 3, 4],
        ] {
            assert!(ends_with_call(call), "{call:x?}");
        }
        // ret; jmp; jmp *%rax; ud2; a jump through memory.
        for other in
            [&[0xc3][..], &[0xe9, 1, 2, 3, 4], &[0xff, 0xe0], &[0x0f, 0x0b], &[0xff, 0x25, 1, 2, 3, 4], &[]]
        {
            assert!(!ends_with_call(other), "{other:x?}");
        }
    }

    #[test]
    fn code_that_begins_with_another_stack() {
        // mov %rbx, %rsp in both encodings, with and without endbr64; mov %r12, %rsp.
        for code in [
            &[0x48, 0x89, 0xdc][..],
            &[0x48, 0x8b, 0xe3],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xdc],
            &[0x4c, 0x89, 0xe4],
            &[0x49, 0x8b, 0xe4],
        ] {
            assert!(loads_stack_pointer(code), "{code:x?}");
        }
        // mov %rsp, %rbp; push %rbx; mov (%rsp), %rdi
        for code in [&[0x48, 0x89, 0xe5][..], &[0x53], &[0x48, 0x8b, 0x3c, 0x24], &[]] {
            assert!(!loads_stack_pointer(code), "{code:x?}");
        }
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
