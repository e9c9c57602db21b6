//! Finds the starts of functions.
//!
//! Strong evidence: function symbols, the ELF entry point and `main`, targets of calls. Weak evidence: addresses that code,
//! relocations or tables of pointers take, which may be labels inside functions, and the code after a known function
//! ([`after_functions`]).

use std::ops::Range;

use hashbrown::HashSet;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use elf::constants::{PF_X, PT_LOAD, SHT_DYNSYM, SHT_RELA, SHT_SYMTAB};

use crate::image::Image;
use crate::layer::Layer;
use crate::reader::Reader;
use crate::start_frames::FIXED_FROM;

const STT_FUNC: u8 = 2;
const R_X86_64_RELATIVE: u64 = 8;
/// Limits of the covered code, in total and per byte of uncovered code, that is searched for calls into uncovered code.
const MAX_SWEPT: u64 = 4 << 20;
/// Instructions at the start of a function among which one must grow the stack, if nothing refers to the function.
const PROLOGUE: usize = 6;
/// Instructions at the entry point among which one calls the C library.
const ENTRY_CODE: usize = 24;
/// Data of one segment that is searched for pointers to code.
const MAX_DATA: usize = 32 << 20;
const MAX_SWEPT_PER_BYTE: u64 = 64;

/// The evidence that a function starts at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It certainly does: a symbol, the entry point, a call.
    Strong,
    /// The address is taken. It may be a label inside a function.
    Weak,
    /// Only the code before it ends there, and the code at it looks like a prologue.
    Shape,
}

/// A work list; strong starts come first.
#[derive(Debug, Default)]
pub(super) struct Starts {
    strong: Vec<u64>,
    weak: Vec<u64>,
    shapes: Vec<u64>,
    known: HashSet<u64>,
}

impl Starts {
    /// Adds an address that may be the start of a function, if the code before it ends there.
    pub(super) fn add_if_plausible(&mut self, image: &Image<'_>, address: u64) {
        if !self.known.contains(&address) && follows_end(image, address) {
            self.weak.push(address);
        }
    }

    pub(super) fn add(&mut self, address: u64, evidence: Evidence) {
        match evidence {
            Evidence::Strong => {
                if self.known.insert(address) {
                    self.strong.push(address);
                }
            }
            _ if self.known.contains(&address) => {}
            Evidence::Weak => self.weak.push(address),
            Evidence::Shape => self.shapes.push(address),
        }
    }

    pub(super) fn next(&mut self) -> Option<(u64, Evidence)> {
        let lists = [
            (&mut self.strong, Evidence::Strong),
            (&mut self.weak, Evidence::Weak),
            (&mut self.shapes, Evidence::Shape),
        ];
        lists.into_iter().find_map(|(list, evidence)| Some((list.pop()?, evidence)))
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
    starts.add(image.entry, Evidence::Strong);
    if let Some(main) = main_function(image).filter(|main| uncovered(*main)) {
        starts.add(main, Evidence::Strong);
    }
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
                        starts.add(value, Evidence::Strong);
                    }
                }
            }
            SHT_RELA => {
                while let (Some(_place), Some(info), Some(addend)) = (r.u64(), r.u64(), r.u64()) {
                    if info == R_X86_64_RELATIVE && uncovered(addend) {
                        starts.add(addend, Evidence::Weak);
                    }
                }
            }
            _ => {}
        }
    }
    for range in data_ranges(image) {
        let words = image.data.get(range).unwrap_or_default().as_chunks::<8>().0;
        let addresses = words.iter().map(|word| u64::from_le_bytes(*word)).filter(|word| uncovered(*word));
        addresses.for_each(|address| starts.add_if_plausible(image, address));
    }
    let size: u64 = covered.spans.iter().map(|span| span.end - span.start).sum();
    let wanted: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
    if size <= wanted.saturating_mul(MAX_SWEPT_PER_BYTE).min(MAX_SWEPT) {
        covered.spans.iter().for_each(|span| sweep(image, span.start..span.end, &uncovered, &mut starts));
    }
    starts
}

/// The address that the code at the entry point loads as the first argument of its only call: `main`, in the startup code
/// of all C libraries.
fn main_function(image: &Image<'_>) -> Option<u64> {
    let code = image.code_at(image.entry).and_then(|_| image.bytes_at(image.entry))?;
    let mut main = None;
    let mut decoder = Decoder::with_ip(64, code, image.entry, DecoderOptions::NONE);
    for instruction in decoder.iter().take(ENTRY_CODE) {
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::Call | FlowControl::IndirectCall => return main,
            _ => return None,
        }
        if instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == Register::RDI
        {
            main = address_taken(&instruction);
        }
    }
    None
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
            starts.add(instruction.near_branch_target(), Evidence::Strong);
        } else if let Some(address) = address_taken(&instruction).filter(|address| uncovered(*address)) {
            starts.add_if_plausible(image, address);
        }
    }
}

/// The parts of the file with data, by their segments.
fn data_ranges(image: &Image<'_>) -> impl Iterator<Item = Range<usize>> {
    let headers = image.layout.program_headers.iter();
    headers.filter(|header| header.kind == PT_LOAD && header.flags.0 & PF_X.0 == 0).filter_map(|header| {
        let all = image.file_range_at(header.address)?;
        let size = usize::try_from(header.file_size).ok()?.min(MAX_DATA);
        // Pointers are aligned in memory.
        let skipped = usize::try_from(header.address.next_multiple_of(8) - header.address).ok()?;
        Some(all.start.checked_add(skipped)?..all.start.checked_add(size)?.min(all.end))
    })
}

/// The first instruction in a range that is no padding, if the code before the range ends there and a prologue follows.
/// Without a prologue it may be a part of a function that is not known.
pub(super) fn after_functions(image: &Image<'_>, range: &Range<u64>) -> Option<u64> {
    let code = bytes_around(image, range.start, 0, range.end - range.start)?;
    let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
    let is_padding = |mnemonic| matches!(mnemonic, Mnemonic::Nop | Mnemonic::Int3);
    let mut instructions =
        decoder.iter().skip_while(|instruction| is_padding(instruction.mnemonic())).peekable();
    let start = instructions.peek()?.ip();
    let is_straight = |instruction: &Instruction| {
        !instruction.is_invalid() && instruction.flow_control() == FlowControl::Next
    };
    let has_prologue =
        instructions.take(PROLOGUE).take_while(is_straight).any(|instruction| grows(&instruction));
    let ends_before = match bytes_around(image, range.start, 2, 0)? {
        [_, 0xc3] | [0xeb, _] | [0x0f, 0x0b] | [0xff, 0xe0..=0xe7] => true,
        _ => matches!(bytes_around(image, range.start, 5, 0), Some([0xe9, ..])),
    };
    (has_prologue && ends_before).then_some(start)
}

/// Whether control does not fall into `address` from the code before it, which starts at `from`, and the byte before
/// `address` is no instruction that runs.
pub(super) fn is_behind_jump(image: &Image<'_>, from: u64, address: u64) -> bool {
    let Some(code) = bytes_around(image, from, 0, address - from) else { return false };
    let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    let (mut has_ended, mut is_behind) = (false, false);
    for instruction in &mut decoder {
        let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        );
        let returns = instruction.flow_control() == FlowControl::Return;
        if instruction.is_invalid() {
            return false;
        }
        is_behind = jumps || is_padding && has_ended;
        has_ended = jumps || returns || is_padding && has_ended;
    }
    is_behind
}

/// Whether a function may start at an address, by its alignment or by the code before it.
pub(super) fn is_plausible(image: &Image<'_>, address: u64) -> bool {
    address & 15 == 0 || follows_end(image, address)
}

/// Whether an instruction takes room on the stack, as those at the start of a function do.
pub(super) fn grows(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push => instruction.op0_kind() == OpKind::Register,
        Mnemonic::Sub => {
            instruction.op0_register() == Register::RSP && instruction.op1_kind() != OpKind::Register
        }
        _ => false,
    }
}

/// Whether the bytes before an address look like the end of code or like padding, and no padding follows. This is no
/// proof.
fn follows_end(image: &Image<'_>, address: u64) -> bool {
    // nop, a longer nop, the end of one.
    if matches!(
        bytes_around(image, address, 0, 3),
        Some([0x90, ..] | [0x0f, 0x1f, _] | [0x66, 0x0f | 0x2e | 0x66, _] | [0, 0, _])
    ) {
        return false;
    }
    match bytes_around(image, address, 5, 0) {
        // ret, hlt, int3, nop, the end of a longer nop.
        Some([.., 0xc3 | 0xf4 | 0xcc | 0x90 | 0x00]) => true,
        // A jump of either length, ud2, a jump by register, a call that may not return.
        Some([.., 0xeb, _] | [.., 0x0f, 0x0b] | [.., 0xff, 0xe0..=0xe7] | [0xe8 | 0xe9, ..]) => true,
        Some(_) => false,
        None => address & 15 == 0,
    }
}

/// The bytes from `before` an address to `after` it. They are not counted as read: their neighbours are.
fn bytes_around<'a>(image: &Image<'a>, address: u64, before: u64, after: u64) -> Option<&'a [u8]> {
    let range = image.file_range_at(address.checked_sub(before)?)?;
    let len = usize::try_from(before + after).ok()?;
    image.data.get(range)?.get(..len)
}

/// The address that an instruction loads, if it loads one.
pub(super) fn address_taken(instruction: &Instruction) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => Some(instruction.ip_rel_memory_address()),
        Mnemonic::Mov => match instruction.op1_kind() {
            OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                // In a program that can be loaded anywhere this is a number.
                Some(instruction.immediate(1)).filter(|_| instruction.ip() >= FIXED_FROM)
            }
            _ => None,
        },
        _ => None,
    }
}
