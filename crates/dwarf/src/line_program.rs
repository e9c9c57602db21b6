//! Runs line programs.
//!
//! Guaranteed: work is bounded by the bytes of the program and the rows that it makes, whatever it is.

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

/// Runs a line program up to its end, to what is damaged, or until a row is not taken. Of several rows at one address the last one counts.
pub(crate) fn run(header: &LineProgramHeader<Slice<'_>>, work: &mut Work, take: impl FnMut(Row) -> bool) {
    let buffer = header.raw_program_buf();
    let mut rows = Rows { states: [State::default(); STATES], last: 0, is_open: false, take };
    if work.take(buffer.len()) && execute(header, buffer.slice(), work, &mut rows).is_some() {
        rows.flush(work);
    }
}

/// States that are kept until rows are made of them.
const STATES: usize = 256;

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
    last: u8,
    /// Whether there is a last state.
    is_open: bool,
    take: F,
}

impl<F: FnMut(Row) -> bool> Rows<F> {
    /// Ends the last row and begins another one. `false` if a row was not taken.
    #[inline(always)]
    fn emit(&mut self, now: Registers, work: &mut Work) -> bool {
        if !self.is_open || now.is_dropped {
            return self.begin(now, work);
        }
        let is_behind = now.address > self.states[usize::from(self.last)].address;
        self.last += u8::from(is_behind);
        self.states[usize::from(self.last)] = State::of(now);
        usize::from(self.last) + 1 < STATES || self.flush(work)
    }

    /// Begins the first row, or none.
    #[cold]
    fn begin(&mut self, now: Registers, work: &mut Work) -> bool {
        let is_taken = self.flush(work);
        self.is_open = !now.is_dropped;
        self.states[0] = State::of(now);
        is_taken
    }

    /// Ends a sequence.
    #[cold]
    fn end(&mut self, now: Registers, work: &mut Work) -> bool {
        let is_taken = self.emit(now, work) && self.flush(work);
        self.is_open = false;
        is_taken
    }

    /// Makes rows of all states but the last one.
    fn flush(&mut self, work: &mut Work) -> bool {
        let last = usize::from(std::mem::take(&mut self.last));
        let states = &self.states[..=last];
        let is_taken = work.take(last)
            && states.array_windows().all(|[state, next]| {
                state.address >= next.address
                    || (self.take)(Row {
                        start: state.address,
                        end: next.address,
                        file: state.file,
                        line: state.line,
                        column: state.column,
                    })
            });
        self.states[0] = self.states[last];
        is_taken
    }
}

impl State {
    #[inline(always)]
    fn of(now: Registers) -> Self {
        Self { address: now.address, file: now.file, line: now.line, column: now.column }
    }
}

/// What an opcode does, without branches: what is added to the registers, and which of them an operand of one byte goes to (all bits set).
#[derive(Clone, Copy, Default)]
struct Opcode {
    address: u32,
    line: i16,
    /// What the operand is multiplied with before it is added to the address.
    to_address: u8,
    to_line: i8,
    to_file: u8,
    to_column: u8,
    /// Bytes with the operand. 0 if it is none of these.
    length: u8,
    /// The bit that an operand of more than one byte has; 0 without operand.
    more: u8,
    emits: bool,
}

/// What each opcode does that has no operand or one of one byte: most of a program are such.
fn opcodes(header: &LineProgramHeader<Slice<'_>>) -> [Opcode; 256] {
    let mut all = [Opcode::default(); 256];
    let plain = Opcode { length: 1, ..Opcode::default() };
    let operand = Opcode { length: 2, more: 0x80, ..Opcode::default() };
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
) -> Option<()> {
    let opcodes = opcodes(header);
    let mask = if header.address_size() == 4 { u64::from(u32::MAX) } else { u64::MAX };
    let mut registers = START;
    let mut at = 0;
    loop {
        let next = data.get(at..).and_then(<[u8]>::first_chunk).map(|[code, operand]| {
            let opcode = &opcodes[usize::from(*code)];
            (opcode, *operand)
        });
        let Some((opcode, operand)) =
            next.filter(|(opcode, operand)| opcode.length != 0 && operand & opcode.more == 0)
        else {
            if at >= data.len() {
                return Some(());
            }
            (registers, at) = slow(header, data, at, (registers, mask), rows, work)?;
            continue;
        };
        at += usize::from(opcode.length);
        let by = u64::from(opcode.address) + u64::from(operand) * u64::from(opcode.to_address);
        registers.address = registers.address.wrapping_add(by) & mask;
        // An operand with a sign has it in its bit 6.
        let lines = ((operand << 1).cast_signed() >> 1) & opcode.to_line;
        registers.line = registers.line.wrapping_add_signed(i32::from(opcode.line) + i32::from(lines));
        registers.file = put(registers.file, operand, opcode.to_file);
        registers.column = put(registers.column, operand, opcode.to_column);
        if opcode.emits && !rows.emit(registers, work) {
            return None;
        }
    }
}

/// The operand where `mask` has all bits, else the register.
#[inline(always)]
fn put(register: u32, operand: u8, mask: u8) -> u32 {
    if mask == 0 { register } else { operand.into() }
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
    work: &mut Work,
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
