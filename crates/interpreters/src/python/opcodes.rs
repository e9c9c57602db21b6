//! Interpreters whose opcodes are functions (`--with-tail-call-interp`, from 3.14 on): each ends in a jump to the next one, and the evaluator
//! only calls the first. So a native frame that runs Python code is in one of them, and the evaluator itself may be inlined into its callers.
//!
//! They are found through the table by which they jump to each other: 256 words in a row that each tell where a function begins, at
//! an address that the evaluator or a function that it calls has as a constant. No other data looks like that.

use std::collections::HashSet;
use std::ops::Range;

use elf::Layout;
use elf::constants::{R_X86_64_RELATIVE, SHT_RELA};
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use unwind::FunctionIndex;

/// One word for each opcode.
const OPCODES: usize = 256;
const WORD: usize = 8;
/// Opcodes that are not in use share a function; the others have one of their own.
const LEAST_FUNCTIONS: usize = 100;
/// Functions, jump targets and parts: about 600.
const MAX_CODE: usize = 4096;
/// Functions that the evaluator calls directly.
const MAX_CALLED: usize = 32;
/// Constants of the evaluator and of these that may be the table.
const MAX_CONSTANTS: usize = 1024;
/// An entry of relocations.
const RELOCATION: usize = 24;

/// The code of the opcodes: their functions, the functions that these jump to, and parts of both that lie apart. Sorted. `None`: the opcodes of this
/// evaluator are no functions.
pub(super) fn opcodes(
    layout: &Layout,
    file: &[u8],
    evaluator: &[Range<u64>],
    functions: &FunctionIndex,
) -> Option<Vec<Range<u64>>> {
    let called = evaluator.iter().flat_map(|part| functions.called_by(file, part.clone(), MAX_CALLED));
    let code: Vec<Range<u64>> = evaluator.iter().cloned().chain(called).take(MAX_CALLED).collect();
    let mut constants = HashSet::new();
    code.iter().for_each(|range| add_constants(layout, file, range, &mut constants));
    let mut tables: Vec<Table> =
        constants.into_iter().filter_map(|address| Table::at(layout, file, address)).collect();
    tables.sort_by_key(|table| table.address);
    relocate(layout, file, &mut tables);
    tables.iter().find_map(|table| {
        let begins = |word: &u64| functions.begins_at(*word);
        let distinct: HashSet<u64> = table.words.iter().copied().collect();
        if distinct.len() < LEAST_FUNCTIONS || !distinct.iter().all(begins) {
            return None;
        }
        let mut found = functions.jumping_together(file, &table.words, MAX_CODE)?;
        // What jumps back into the evaluator is a part of it.
        found.retain(|code| !evaluator.contains(code));
        found.sort_unstable_by_key(|range| range.start);
        Some(found)
    })
}

/// Words in the data of the file.
struct Table {
    address: u64,
    words: [u64; OPCODES],
}

impl Table {
    fn at(layout: &Layout, file: &[u8], address: u64) -> Option<Self> {
        let bytes = layout.bytes_at(file, address)?.get(..OPCODES * WORD)?;
        let mut words = [0; OPCODES];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Self { address, words })
    }
}

/// Puts in what the dynamic linker would. `tables` are sorted.
fn relocate(layout: &Layout, file: &[u8], tables: &mut [Table]) {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return };
    let all = first.address..last.address.saturating_add((OPCODES * WORD) as u64);
    let sections = layout.sections.iter().filter(|section| section.kind == SHT_RELA && section.is_loaded());
    let mut left = file.len();
    for bytes in sections.filter_map(|section| section.bytes(file)) {
        let bytes = &bytes[..bytes.len().min(left)];
        left -= bytes.len();
        for entry in bytes.as_chunks::<RELOCATION>().0 {
            let (words, _) = entry.as_chunks::<WORD>();
            let [place, kind, target] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
            if kind as u32 != R_X86_64_RELATIVE.0 || !all.contains(&place) {
                continue;
            }
            // Tables overlap where several constants lie in one.
            let end = tables.partition_point(|table| table.address <= place);
            for table in tables[..end].iter_mut().rev() {
                let offset = place - table.address;
                let Some(word) = table.words.get_mut((offset / 8) as usize) else { break };
                if offset.is_multiple_of(8) {
                    *word = target;
                }
            }
        }
    }
}

/// Adds the constants of some code that may be addresses of a table.
fn add_constants(layout: &Layout, file: &[u8], code: &Range<u64>, constants: &mut HashSet<u64>) {
    let Some(bytes) = layout.bytes_at(file, code.start) else { return };
    let len = bytes.len().min(usize::try_from(code.end.saturating_sub(code.start)).unwrap_or(usize::MAX));
    let mut decoder = Decoder::with_ip(64, &bytes[..len], code.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() && constants.len() < MAX_CONSTANTS {
        decoder.decode_out(&mut instruction);
        constants.extend(constant(&instruction).filter(|address| address.is_multiple_of(WORD as u64)));
    }
}

/// The address that an instruction loads or indexes.
fn constant(instruction: &Instruction) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    let has_memory = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    if has_memory && instruction.memory_base() == Register::None {
        return Some(instruction.memory_displacement64());
    }
    let last = instruction.op_count().checked_sub(1)?;
    match instruction.op_kind(last) {
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
            Some(instruction.immediate(last))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
