//! Line programs: which source line each address is of.

use std::ops::Range;

use gimli::constants as dw;
use gimli::{DebugLine, IncompleteLineProgram, LineProgramHeader};

use crate::bytes::{sleb, uleb};
use crate::limits::{MAX_LINE_HEADER, MAX_ROWS, MAX_TEXT, Work};
use crate::sections::Slice;
use crate::view::View;

/// Addresses of one line of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub start: u64,
    pub end: u64,
    /// Number in the program's table of files.
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// The line program of a unit.
pub(crate) struct Lines<'a> {
    program: IncompleteLineProgram<Slice<'a>>,
}

impl<'a> Lines<'a> {
    /// Reads the header. `None` if there is no program, or if it is damaged.
    pub fn open(view: &View<'a>) -> Option<Self> {
        Self::at(view.space.dwarf.debug_line, &view.root, view.head.encoding.address_size)
    }

    /// The same of a unit of which only the root was read.
    pub fn at(section: DebugLine<Slice<'a>>, root: &crate::view::Root<'a>, address_size: u8) -> Option<Self> {
        let offset = root.lines?;
        let bytes = gimli::Section::reader(&section).slice();
        if header_length(bytes.get(offset.0..)?)? > MAX_LINE_HEADER {
            return None;
        }
        let program = section.program(offset, address_size, root.directory, root.name).ok()?;
        Some(Self { program })
    }

    /// The rows that have addresses in sorted ranges, sorted and without overlaps, in place of others.
    pub fn rows(&self, wanted: &[Range<u64>], rows: &mut Vec<Row>, work: &mut Work) {
        rows.clear();
        let mut at = 0;
        // Between this and the next wanted range nothing is wanted.
        let mut unwanted = 0..wanted.first().map_or(u64::MAX, |range| range.start);
        run(self.program.header(), work, |row| {
            if row.start >= unwanted.start && row.end <= unwanted.end {
                return true;
            }
            let is_before = |range: &Range<u64>| range.end <= row.start;
            if wanted.get(at).is_some_and(is_before) {
                at += 1;
            }
            let is_there = wanted.get(at).is_none_or(|range| !is_before(range));
            if !is_there || at.checked_sub(1).is_some_and(|last| !is_before(&wanted[last])) {
                at = wanted.partition_point(is_before);
            }
            if wanted.get(at).is_some_and(|range| range.start < row.end) {
                rows.push(row);
            } else {
                let before = at.checked_sub(1).and_then(|last| wanted.get(last));
                unwanted =
                    before.map_or(0, |range| range.end)..wanted.get(at).map_or(u64::MAX, |range| range.start);
            }
            rows.len() < MAX_ROWS
        });
        rows.sort_by_key(|row| row.start);
        let mut end = 0;
        rows.retain_mut(|row| {
            row.start = row.start.max(end);
            end = end.max(row.end);
            row.start < row.end
        });
    }

    /// The address ranges of all sequences, at most so many.
    pub fn sequences(&self, most: usize, work: &mut Work) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        run(self.program.header(), work, |row| {
            match ranges.last_mut() {
                Some(last) if last.end == row.start => last.end = row.end,
                _ => ranges.push(row.start..row.end),
            }
            ranges.len() < most
        });
        ranges
    }

    /// The path of a file, with the directories before it as far as they are known.
    pub fn path(&self, view: &View<'a>, file: u64, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let header = self.program.header();
        let entry = header.file(file)?;
        let name = view.string(entry.path_name())?.slice();
        if name.first() != Some(&b'/') {
            let directory =
                entry.directory(header).and_then(|value| view.string(value)).map(|name| name.slice());
            let directory = directory.unwrap_or_default();
            let own = view.root.directory.map(|name| name.slice()).unwrap_or_default();
            if directory.first() != Some(&b'/') {
                // The directory of number 0 is the unit's own.
                join(out, own);
            }
            if directory != own || out.is_empty() {
                join(out, directory);
            }
        }
        join(out, name);
        Some(())
    }
}

fn join(out: &mut Vec<u8>, part: &[u8]) {
    if !out.is_empty() && out.last() != Some(&b'/') && !part.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(&part[..part.len().min(MAX_TEXT)]);
}

/// What the header of a line program says of its own length.
fn header_length(program: &[u8]) -> Option<u64> {
    let is_64 = program.get(..4)? == [0xff; 4];
    let version_at = if is_64 { 12 } else { 4 };
    let version = u16::from_le_bytes(*program.get(version_at..)?.first_chunk()?);
    let at = version_at + if version >= 5 { 4 } else { 2 };
    let rest = program.get(at..)?;
    Some(match is_64 {
        true => u64::from_le_bytes(*rest.first_chunk()?),
        false => u32::from_le_bytes(*rest.first_chunk()?).into(),
    })
}

/// The registers of a line program.
#[derive(Clone, Copy)]
struct Registers {
    address: u64,
    operation: u64,
    file: u32,
    line: u32,
    column: u32,
    /// The rest up to the next address is of code that the linker dropped.
    is_dropped: bool,
}

const START: Registers =
    Registers { address: 0, operation: 0, file: 1, line: 1, column: 0, is_dropped: false };

/// Runs a line program up to its end, to what is damaged, or until a row is not taken. Of several rows at one address the last one counts.
fn run(header: &LineProgramHeader<Slice<'_>>, work: &mut Work, take: impl FnMut(Row) -> bool) {
    let buffer = header.raw_program_buf();
    let mut rows = Rows { last: START, is_open: false, take };
    let _ = execute(header, buffer.slice(), work, &mut rows);
}

/// Makes rows of the states of the registers.
struct Rows<F> {
    last: Registers,
    /// Whether there is a last state, from which a row goes on.
    is_open: bool,
    take: F,
}

impl<F: FnMut(Row) -> bool> Rows<F> {
    /// Ends the last row and begins another one, or nothing at the end of a sequence. `false` if the row was not taken.
    #[inline(always)]
    fn emit(&mut self, now: &Registers, ends: bool) -> bool {
        let last = &self.last;
        let is_taken = !self.is_open
            || last.address >= now.address
            || now.is_dropped
            || (self.take)(Row {
                start: last.address,
                end: now.address,
                file: last.file,
                line: last.line,
                column: last.column,
            });
        self.is_open = !ends && !now.is_dropped;
        self.last = *now;
        is_taken
    }
}

fn execute(
    header: &LineProgramHeader<Slice<'_>>,
    data: &[u8],
    work: &mut Work,
    rows: &mut Rows<impl FnMut(Row) -> bool>,
) -> Option<()> {
    let (base, range) = (header.line_base(), header.line_range());
    let opcode_base = header.opcode_base();
    let operations = u64::from(header.maximum_operations_per_instruction());
    let minimum = u64::from(header.minimum_instruction_length());
    let mask = if header.address_size() == 4 { u64::from(u32::MAX) } else { u64::MAX };
    let advance = |registers: &mut Registers, by: u64| {
        if operations == 1 {
            registers.address = registers.address.wrapping_add(by.wrapping_mul(minimum)) & mask;
        } else {
            let sum = registers.operation.wrapping_add(by);
            registers.address =
                registers.address.wrapping_add((sum / operations).wrapping_mul(minimum)) & mask;
            registers.operation = sum % operations;
        }
    };
    // `line_range` is not 0: gimli refuses that.
    let steps = |opcode: u8| u64::from(opcode.wrapping_sub(opcode_base).checked_div(range).unwrap_or(0));
    // What each opcode without operands adds to address and line: most of a program are such.
    let special: [(u8, i16); 256] = std::array::from_fn(|opcode| {
        let opcode = opcode as u8;
        let line = opcode.wrapping_sub(opcode_base).checked_rem(range).unwrap_or(0);
        (steps(opcode) as u8, i16::from(base) + i16::from(line))
    });
    let mut registers = START;
    let mut at = 0;
    while let Some(opcode) = data.get(at).copied() {
        at += 1;
        if opcode >= opcode_base {
            let (steps, lines) = special[usize::from(opcode)];
            registers.line = registers.line.wrapping_add_signed(lines.into());
            advance(&mut registers, steps.into());
            if !work.take(1) || !rows.emit(&registers, false) {
                return None;
            }
            continue;
        }
        match dw::DwLns(opcode) {
            EXTENDED => {
                let length = usize::try_from(uleb(data, &mut at)?).ok()?;
                let end = at.checked_add(length)?;
                let operand = data.get(at..end)?;
                at = end;
                match operand.split_first() {
                    Some((1, _)) => {
                        if !work.take(1) || !rows.emit(&registers, true) {
                            return None;
                        }
                        registers = START;
                    }
                    Some((2, address)) => set_address(&mut registers, address, mask),
                    _ => {}
                }
            }
            dw::DW_LNS_copy => {
                if !work.take(1) || !rows.emit(&registers, false) {
                    return None;
                }
            }
            dw::DW_LNS_advance_pc => advance(&mut registers, uleb(data, &mut at)?),
            dw::DW_LNS_advance_line => {
                registers.line = registers.line.wrapping_add(sleb(data, &mut at)? as u32);
            }
            dw::DW_LNS_set_file => registers.file = u32::try_from(uleb(data, &mut at)?).unwrap_or(u32::MAX),
            dw::DW_LNS_set_column => registers.column = u32::try_from(uleb(data, &mut at)?).unwrap_or(0),
            dw::DW_LNS_negate_stmt
            | dw::DW_LNS_set_basic_block
            | dw::DW_LNS_set_prologue_end
            | dw::DW_LNS_set_epilogue_begin => {}
            dw::DW_LNS_const_add_pc => advance(&mut registers, steps(255)),
            dw::DW_LNS_fixed_advance_pc => {
                let by = u16::from_le_bytes(*data.get(at..)?.first_chunk()?);
                at += 2;
                registers.address = registers.address.wrapping_add(by.into()) & mask;
                registers.operation = 0;
            }
            _ => {
                let index = usize::from(opcode).checked_sub(1)?;
                let operands = header.standard_opcode_lengths().slice().get(index).copied()?;
                for _ in 0..operands {
                    uleb(data, &mut at)?;
                }
            }
        }
    }
    work.take(data.len()).then_some(())
}

/// Another opcode follows.
const EXTENDED: dw::DwLns = dw::DwLns(0);

fn set_address(registers: &mut Registers, operand: &[u8], mask: u64) {
    let mut bytes = [0; 8];
    let length = operand.len().min(8);
    bytes[..length].copy_from_slice(&operand[..length]);
    let address = u64::from_le_bytes(bytes);
    // Dropped code has the address 0, 1 or -1, which in a sequence is below the last one.
    registers.is_dropped = address < registers.address || address >= mask - 1;
    if !registers.is_dropped {
        registers.address = address;
        registers.operation = 0;
    }
}
