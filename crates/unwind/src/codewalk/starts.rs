//! Finds the starts of functions.
//!
//! Strong evidence: function symbols, the ELF entry point, targets of calls. Weak evidence: addresses that code or
//! relocations take, which may be labels inside functions.

use std::ops::Range;

use hashbrown::HashSet;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;

use elf::constants::{SHT_DYNSYM, SHT_RELA, SHT_SYMTAB};

use crate::image::Image;
use crate::layer::Layer;
use crate::reader::Reader;

const STT_FUNC: u8 = 2;
const R_X86_64_RELATIVE: u64 = 8;
/// Limits of the covered code, in total and per byte of uncovered code, that is searched for calls into uncovered code.
const MAX_SWEPT: u64 = 4 << 20;
const MAX_SWEPT_PER_BYTE: u64 = 64;

/// A work list; strong starts come first.
#[derive(Debug, Default)]
pub(super) struct Starts {
    strong: Vec<u64>,
    weak: Vec<u64>,
    known: HashSet<u64>,
}

impl Starts {
    pub(super) fn add(&mut self, address: u64, strong: bool) {
        if strong {
            if self.known.insert(address) {
                self.strong.push(address);
            }
        } else if !self.known.contains(&address) {
            self.weak.push(address);
        }
    }

    pub(super) fn next(&mut self) -> Option<(u64, bool)> {
        self.strong.pop().map(|start| (start, true)).or_else(|| self.weak.pop().map(|start| (start, false)))
    }

    /// All strong starts so far.
    pub(super) fn known(&self) -> &HashSet<u64> {
        &self.known
    }
}

pub(super) fn find(image: &Image<'_>, covered: &Layer, gaps: &[Range<u64>]) -> Starts {
    let mut starts = Starts::default();
    let uncovered = |address: u64| {
        let after = gaps.partition_point(|gap| gap.start <= address);
        after > 0 && address < gaps[after - 1].end
    };
    starts.add(image.entry, true);
    let wanted = [SHT_SYMTAB, SHT_DYNSYM, SHT_RELA];
    for (kind, data) in image.tables(&wanted) {
        image.touch_all(data.len() as u64);
        let mut r = Reader::at(data, 0);
        match kind {
            SHT_SYMTAB | SHT_DYNSYM => {
                while let (Some(_name), Some(info), Some(_index), Some(value), Some(_size)) =
                    (r.u32(), r.u8(), r.u8().and_then(|_| r.u16()), r.u64(), r.u64())
                {
                    if info & 0xf == STT_FUNC && uncovered(value) {
                        starts.add(value, true);
                    }
                }
            }
            SHT_RELA => {
                while let (Some(_place), Some(info), Some(addend)) = (r.u64(), r.u64(), r.u64()) {
                    if info == R_X86_64_RELATIVE && uncovered(addend) {
                        starts.add(addend, false);
                    }
                }
            }
            _ => {}
        }
    }
    let size: u64 = covered.spans.iter().map(|span| span.end - span.start).sum();
    let wanted: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
    if size <= wanted.saturating_mul(MAX_SWEPT_PER_BYTE).min(MAX_SWEPT) {
        covered.spans.iter().for_each(|span| sweep(image, span.start..span.end, &uncovered, &mut starts));
    }
    starts
}

/// Finds calls and taken addresses in code with unwind information.
fn sweep(image: &Image<'_>, span: Range<u64>, uncovered: &impl Fn(u64) -> bool, starts: &mut Starts) {
    let Some(code) = image.bytes_at(span.start) else { return };
    let len = usize::try_from(span.end - span.start).unwrap_or(usize::MAX).min(code.len());
    let mut decoder = Decoder::with_ip(64, &code[..len], span.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return;
        }
        if instruction.flow_control() == FlowControl::Call && uncovered(instruction.near_branch_target()) {
            starts.add(instruction.near_branch_target(), true);
        } else if let Some(address) = address_taken(&instruction).filter(|address| uncovered(*address)) {
            starts.add(address, false);
        }
    }
}

/// The address that an instruction loads, if it loads one.
pub(super) fn address_taken(instruction: &Instruction) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => Some(instruction.ip_rel_memory_address()),
        Mnemonic::Mov => match instruction.op1_kind() {
            OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                Some(instruction.immediate(1))
            }
            _ => None,
        },
        _ => None,
    }
    // In position-dependent code a number can look like an address. Functions are aligned, numbers rarely are.
    .filter(|address| instruction.mnemonic() == Mnemonic::Lea || address & 15 == 0)
}
