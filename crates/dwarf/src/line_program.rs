//! Runs line programs.
//!
//! Guaranteed: work is bounded by the bytes of the program and the rows that it makes, whatever it is.

use std::hint::select_unpredictable;
use std::ops::Range;

use gimli::LineProgramHeader;
use gimli::constants as dw;

use crate::bytes::{sleb, uleb};
use crate::limits::Work;
use crate::sections::Slice;

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

/// The registers.
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

/// A part of a line program that needs nothing of what is before it, and the addresses between its first row and its last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub bytes: Range<usize>,
    pub addresses: Range<u64>,
}

/// Runs a line program up to its end, to what is damaged, or until a row is not taken. Of several rows at one address the last one counts.
/// `false` if it was not run to its end. `sequences` are added.
pub(crate) fn run(
    header: &LineProgramHeader<Slice<'_>>,
    sequences: &mut Vec<Sequence>,
    work: &mut Work,
    take: impl FnMut(Row) -> bool,
) -> bool {
    let whole = header.raw_program_buf().slice();
    let mut rows = Rows::new(take);
    work.take(whole.len()) && execute(header, whole, work, &mut rows, sequences).is_some() && {
        let is_taken = rows.flush(work);
        rows.enter_sequence(whole.len(), sequences);
        is_taken
    }
}

/// The same of one sequence of the program.
pub(crate) fn run_sequence(
    header: &LineProgramHeader<Slice<'_>>,
    sequence: &Sequence,
    work: &mut Work,
    take: impl FnMut(Row) -> bool,
) -> bool {
    let part = header.raw_program_buf().slice().get(sequence.bytes.clone()).unwrap_or_default();
    let mut rows = Rows::new(take);
    work.take(part.len())
        && execute(header, part, work, &mut rows, &mut Vec::new()).is_some()
        && rows.flush(work)
}

/// States that are kept until rows are made of them.
const STATES: usize = 256;

/// Grows with the first row.
const NO_ADDRESSES: Range<u64> = Range { start: u64::MAX, end: 0 };

/// The registers at the begin of a row.
#[derive(Clone, Copy, Default)]
struct State {
    address: u64,
    file: u32,
    line: u32,
    column: u32,
}

/// Makes rows of the states of the registers, many at once: one that is replaced by another one at the same address, or not, is what no branch
/// predictor foresees.
struct Rows<F> {
    states: [State; STATES],
    /// Number of the last state, from which a row goes on.
    last: usize,
    /// The address of the last state; the largest one if there is none.
    last_address: u64,
    /// Where the sequence begins, and the addresses of its rows so far.
    begin: usize,
    addresses: Range<u64>,
    take: F,
}

impl<F: FnMut(Row) -> bool> Rows<F> {
    fn new(take: F) -> Self {
        let states = [State::default(); STATES];
        Self { states, last: 0, last_address: u64::MAX, begin: 0, addresses: NO_ADDRESSES, take }
    }

    /// Tells a sequence that ends at a position of the program, whose rows were made.
    fn enter_sequence(&mut self, end: usize, sequences: &mut Vec<Sequence>) {
        let bytes = std::mem::replace(&mut self.begin, end)..end;
        let addresses = std::mem::replace(&mut self.addresses, NO_ADDRESSES);
        // Most of what has no rows is of dropped code.
        if addresses.start < addresses.end {
            sequences.push(Sequence { bytes, addresses });
        }
    }

    /// Ends the last row and begins another one. `false` if a row was not taken.
    #[inline(always)]
    fn emit(&mut self, now: Registers, work: &mut Work) -> bool {
        if now.is_dropped {
            return self.drop_rows(work);
        }
        self.last += usize::from(now.address > self.last_address);
        self.last_address = now.address;
        if let Some(state) = self.states.get_mut(self.last) {
            *state = State::of(now);
        }
        self.last + 1 < STATES || self.flush(work)
    }

    /// Ends the last row without an end, as there is none where code was dropped.
    #[cold]
    fn drop_rows(&mut self, work: &mut Work) -> bool {
        let is_taken = self.flush(work);
        self.last_address = u64::MAX;
        is_taken
    }

    /// Ends a sequence.
    #[cold]
    fn end(&mut self, now: Registers, work: &mut Work) -> bool {
        let is_taken = self.emit(now, work) && self.flush(work);
        self.last_address = u64::MAX;
        is_taken
    }

    /// Makes rows of all states but the last one.
    fn flush(&mut self, work: &mut Work) -> bool {
        let last = std::mem::take(&mut self.last);
        let states = self.states.get(..=last).unwrap_or_default();
        let Self { addresses, take, .. } = self;
        let is_taken = work.take(last)
            && states.array_windows().all(|[state, next]| {
                if state.address >= next.address {
                    return true;
                }
                let (start, end) = (state.address, next.address);
                *addresses = addresses.start.min(start)..addresses.end.max(end);
                take(Row { start, end, file: state.file, line: state.line, column: state.column })
            });
        self.states[0] = self.states.get(last).copied().unwrap_or_default();
        is_taken
    }
}

impl State {
    #[inline(always)]
    fn of(now: Registers) -> Self {
        Self { address: now.address, file: now.file, line: now.line, column: now.column }
    }
}

/// What an opcode does, without branches: what is added to the registers, and which of them an operand goes to (all bits set).
#[derive(Clone, Copy, Default)]
struct Opcode {
    address: u32,
    line: i16,
    /// What the operand is multiplied with before it is added to the address.
    to_address: u8,
    to_line: i8,
    to_file: u8,
    to_column: u8,
    /// Whether it is one of these.
    is_plain: bool,
    has_operand: bool,
    emits: bool,
}

/// What each opcode does that has no operand or one: most of a program are such.
fn opcodes(header: &LineProgramHeader<Slice<'_>>) -> [Opcode; 256] {
    let mut all = [Opcode::default(); 256];
    let plain = Opcode { is_plain: true, ..Opcode::default() };
    let operand = Opcode { has_operand: true, ..plain };
    let minimum = header.minimum_instruction_length();
    let base = header.opcode_base();
    let has_one_operation = header.maximum_operations_per_instruction() == 1;
    for opcode in 1..=u8::MAX {
        let address = u32::from(steps(header, opcode)) * u32::from(minimum);
        all[usize::from(opcode)] = match dw::DwLns(opcode) {
            _ if opcode >= base && has_one_operation => {
                // `line_range` is not 0: gimli refuses that.
                let line = (opcode - base).checked_rem(header.line_range()).unwrap_or(0);
                let line = i16::from(header.line_base()) + i16::from(line);
                Opcode { address, line, emits: true, ..plain }
            }
            _ if opcode >= base => continue,
            dw::DW_LNS_copy => Opcode { emits: true, ..plain },
            dw::DW_LNS_advance_pc if has_one_operation => Opcode { to_address: minimum, ..operand },
            dw::DW_LNS_advance_line => Opcode { to_line: -1, ..operand },
            dw::DW_LNS_set_file => Opcode { to_file: u8::MAX, ..operand },
            dw::DW_LNS_set_column => Opcode { to_column: u8::MAX, ..operand },
            dw::DW_LNS_negate_stmt
            | dw::DW_LNS_set_basic_block
            | dw::DW_LNS_set_prologue_end
            | dw::DW_LNS_set_epilogue_begin => plain,
            dw::DW_LNS_const_add_pc if has_one_operation => {
                Opcode { address: u32::from(steps(header, 255)) * u32::from(minimum), ..plain }
            }
            _ => continue,
        };
    }
    all
}

/// What an opcode without operands adds to the address, in operations.
fn steps(header: &LineProgramHeader<Slice<'_>>, opcode: u8) -> u8 {
    opcode.wrapping_sub(header.opcode_base()).checked_div(header.line_range()).unwrap_or(0)
}

// Apart, so that the registers of the program stay in those of the processor.
#[inline(never)]
fn execute(
    header: &LineProgramHeader<Slice<'_>>,
    data: &[u8],
    work: &mut Work,
    rows: &mut Rows<impl FnMut(Row) -> bool>,
    sequences: &mut Vec<Sequence>,
) -> Option<()> {
    let opcodes = opcodes(header);
    // A bit for each opcode with an operand: what the position of the next one depends on must be known at once. Others are `slow`.
    let with_operand =
        (0..64).filter(|opcode| opcodes[*opcode].has_operand).fold(0u64, |all, opcode| all | 1 << opcode);
    let mask = if header.address_size() == 4 { u64::from(u32::MAX) } else { u64::MAX };
    let mut registers = START;
    let mut at = 0;
    loop {
        let next = data.get(at..).and_then(<[u8]>::first_chunk).map(|[code, first, second]| {
            let opcode = &opcodes[usize::from(*code)];
            let has_operand = with_operand.unbounded_shr((*code).into()) & 1;
            (opcode, *first, *second, has_operand, u64::from(*first >> 7) & has_operand)
        });
        // Operands of one byte or two.
        let is_short = |opcode: &Opcode, second: u8, has_second: u64| {
            opcode.is_plain && u64::from(second >> 7) & has_second == 0
        };
        let Some((opcode, first, second, has_operand, has_second)) =
            next.filter(|(opcode, _, second, _, has_second)| is_short(opcode, *second, *has_second))
        else {
            if at >= data.len() {
                return Some(());
            }
            (registers, at) = slow(header, data, at, (registers, mask), rows, (work, sequences))?;
            continue;
        };
        at += 1 + (has_operand + has_second) as usize;
        let has_second = has_second != 0;
        let both = u32::from(first & 0x7f) | u32::from(second) << 7;
        let operand = select_unpredictable(has_second, both, first.into());
        let by = u64::from(opcode.address) + u64::from(operand) * u64::from(opcode.to_address);
        registers.address = registers.address.wrapping_add(by) & mask;
        // Where an operand has its sign.
        let unused = select_unpredictable(has_second, 32 - 14, 32 - 7);
        let lines = ((operand << unused).cast_signed() >> unused) & i32::from(opcode.to_line);
        registers.line = registers.line.wrapping_add_signed(i32::from(opcode.line) + lines);
        registers.file = put(registers.file, operand, opcode.to_file);
        registers.column = put(registers.column, operand, opcode.to_column);
        if opcode.emits && !rows.emit(registers, work) {
            return None;
        }
    }
}

/// The operand where `mask` has all bits, else the register.
#[inline(always)]
fn put(register: u32, operand: u32, mask: u8) -> u32 {
    select_unpredictable(mask == 0, register, operand)
}

/// Does what one opcode says, whichever it is.
#[cold]
#[inline(never)]
fn slow(
    header: &LineProgramHeader<Slice<'_>>,
    data: &[u8],
    mut at: usize,
    (mut registers, mask): (Registers, u64),
    rows: &mut Rows<impl FnMut(Row) -> bool>,
    (work, sequences): (&mut Work, &mut Vec<Sequence>),
) -> Option<(Registers, usize)> {
    let operations = u64::from(header.maximum_operations_per_instruction());
    let minimum = u64::from(header.minimum_instruction_length());
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
    let opcode = *data.get(at)?;
    at += 1;
    if let Some(number) = opcode.checked_sub(header.opcode_base()) {
        let line = number.checked_rem(header.line_range()).unwrap_or(0);
        let lines = i32::from(header.line_base()) + i32::from(line);
        registers.line = registers.line.wrapping_add_signed(lines);
        advance(&mut registers, steps(header, opcode).into());
        return rows.emit(registers, work).then_some((registers, at));
    }
    match dw::DwLns(opcode) {
        EXTENDED => {
            let length = usize::try_from(uleb(data, &mut at)?).ok()?;
            let end = at.checked_add(length)?;
            let operand = data.get(at..end)?;
            at = end;
            match operand.split_first() {
                Some((1, _)) => {
                    rows.end(registers, work).then_some(())?;
                    rows.enter_sequence(at, sequences);
                    registers = START;
                }
                Some((2, address)) => set_address(&mut registers, address, mask),
                _ => {}
            }
        }
        dw::DW_LNS_copy => rows.emit(registers, work).then_some(())?,
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
        dw::DW_LNS_const_add_pc => advance(&mut registers, steps(header, 255).into()),
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
    Some((registers, at))
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
