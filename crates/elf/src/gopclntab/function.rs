//! The functions of the table.

use super::header::{PcLnTab, Version};
use super::values::Values;

/// Names and paths are not longer.
const MAX_TEXT: usize = 64 << 10;
/// Steps through one table of values.
const MAX_STEPS: usize = 1 << 17;
/// `FuncFlagSPWrite`: the function loads the stack pointer with something that its table cannot say.
const FLAG_WRITES_SP: u8 = 2;

const PCDATA_INLINE_INDEX: u32 = 2;
const FUNCDATA_INLINE_TREE: u32 = 3;

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'t> {
    /// Where it starts, relative to the start of the text; the address itself in Go 1.16 and 1.17.
    pub start: u64,
    /// Where the next function starts.
    pub end: u64,
    /// Line of its declaration; 0 in versions that do not store it.
    pub start_line: u32,
    /// Whether it loads the stack pointer with something that its table cannot say.
    pub writes_sp: bool,
    name: u32,
    stack_sizes: u32,
    file_numbers: u32,
    lines: u32,
    unit: u32,
    /// The tables of values for each instruction, then the other data of the function.
    arrays: &'t [u8],
    pcdata_count: u32,
    funcdata_count: u8,
}

/// A call that was inlined.
#[derive(Clone, Copy, Debug)]
pub struct InlinedCall<'t> {
    /// Name of the function that was called.
    pub name: &'t [u8],
    /// Line of its declaration.
    pub start_line: u32,
    /// Offset of an instruction of the caller, from the start of the function that both are inlined into.
    pub parent_offset: u64,
}

fn word(bytes: &[u8], index: u32) -> Option<u32> {
    let at = (index as usize).checked_mul(4)?;
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'t> PcLnTab<'t> {
    /// The function with a number. `None` if its description is malformed.
    #[must_use]
    pub fn function(&self, index: u64) -> Option<Function<'t>> {
        if index >= self.function_count {
            return None;
        }
        let (start, description) = self.entry(index)?;
        let (end, _) = self.entry(index + 1)?;
        let fields = self.bytes.get(self.functab.checked_add(description?)?..)?;
        // The start again; it is 8 bytes long where it is an address.
        let fields = fields.get(if self.version == Version::Go116 { 8 } else { 4 }..)?;
        let has_start_line = self.version >= Version::Go120;
        let flags_at = if has_start_line { 36 } else { 32 };
        let &[_id, flags, _, funcdata_count] = fields.get(flags_at..)?.first_chunk()?;
        Some(Function {
            start,
            end,
            start_line: if has_start_line { word(fields, 8)? } else { 0 },
            writes_sp: flags & FLAG_WRITES_SP != 0,
            name: word(fields, 0)?,
            stack_sizes: word(fields, 3)?,
            file_numbers: word(fields, 4)?,
            lines: word(fields, 5)?,
            pcdata_count: word(fields, 6)?,
            unit: word(fields, 7)?,
            arrays: &fields[flags_at + 4..],
            funcdata_count,
        })
    }

    /// The function that covers a position, relative to what [`Function::start`] is relative to.
    #[must_use]
    pub fn function_at(&self, position: u64) -> Option<Function<'t>> {
        let (mut low, mut high) = (0, self.function_count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.0 <= position { low = middle + 1 } else { high = middle }
        }
        self.function(low.checked_sub(1)?).filter(|function| position < function.end)
    }

    /// Start of a function, and the position of its description in the list of functions.
    fn entry(&self, index: u64) -> Option<(u64, Option<usize>)> {
        let at = usize::try_from(index).ok()?.checked_mul(self.entry_size())?.checked_add(self.functab)?;
        let entry = self.bytes.get(at..)?;
        if self.version == Version::Go116 {
            let (start, rest) = entry.split_first_chunk()?;
            let description = rest.first_chunk().and_then(|at| usize::try_from(u64::from_le_bytes(*at)).ok());
            Some((u64::from_le_bytes(*start), description))
        } else {
            Some((word(entry, 0)?.into(), word(entry, 1).map(|at| at as usize)))
        }
    }

    /// The name of a function, if it has at most `max` bytes.
    #[must_use]
    pub fn name(&self, function: &Function<'_>, max: usize) -> Option<&'t [u8]> {
        self.name_at(function.name, max)
    }

    fn name_at(&self, offset: u32, max: usize) -> Option<&'t [u8]> {
        self.text(self.names.checked_add(offset as usize)?, max.min(MAX_TEXT))
    }

    /// How far the stack pointer is below its value at the start of the function, for each instruction. `None` for
    /// functions without such a table.
    #[must_use]
    pub fn stack_sizes(&self, function: &Function<'_>) -> Option<Values<'t>> {
        self.values(function.stack_sizes)
    }

    /// File and line of the instruction at an offset from the start of a function.
    #[must_use]
    pub fn position(&self, function: &Function<'_>, offset: u64) -> (Option<&'t [u8]>, Option<u32>) {
        let file = self.value(function.file_numbers, offset).and_then(|number| {
            let index = function.unit.checked_add(u32::try_from(number).ok()?)?;
            let at = word(self.bytes.get(self.units..)?, index).filter(|at| *at != u32::MAX)?;
            self.text(self.files.checked_add(at as usize)?, MAX_TEXT).filter(|path| !path.is_empty())
        });
        (file, self.value(function.lines, offset).and_then(|line| u32::try_from(line).ok()))
    }

    /// The number of the inlined call that the instruction at an offset belongs to.
    #[must_use]
    pub fn inlined_call_number(&self, function: &Function<'_>, offset: u64) -> Option<usize> {
        if PCDATA_INLINE_INDEX >= function.pcdata_count {
            return None;
        }
        let table = word(function.arrays, PCDATA_INLINE_INDEX)?;
        usize::try_from(self.value(table, offset)?).ok()
    }

    /// The position of the function's inlined calls, relative to [`super::Module::data`].
    #[must_use]
    pub fn inlined_calls(&self, function: &Function<'_>) -> Option<u32> {
        if FUNCDATA_INLINE_TREE >= function.funcdata_count.into() {
            return None;
        }
        word(function.arrays, function.pcdata_count.checked_add(FUNCDATA_INLINE_TREE)?)
            .filter(|offset| *offset != u32::MAX)
    }

    /// One of the inlined calls that begin at `calls`. Layout of Go 1.20 and later.
    #[must_use]
    pub fn inlined_call(&self, calls: &[u8], number: usize) -> Option<InlinedCall<'t>> {
        let call = calls.get(number.checked_mul(16)?..)?.first_chunk::<16>()?;
        let name = self.name_at(word(call, 1)?, MAX_TEXT).filter(|name| !name.is_empty())?;
        Some(InlinedCall { name, parent_offset: word(call, 2)?.into(), start_line: word(call, 3)? })
    }

    fn values(&self, offset: u32) -> Option<Values<'t>> {
        if offset == 0 {
            return None;
        }
        let bytes = self.values.checked_add(offset as usize).and_then(|at| self.bytes.get(at..));
        Some(Values::new(bytes.unwrap_or_default(), self.quantum))
    }

    fn value(&self, table: u32, offset: u64) -> Option<i32> {
        let steps = self.values(table)?.take(MAX_STEPS).map_while(Result::ok);
        steps.skip_while(|step| step.to <= offset).map(|step| step.value).next()
    }
}
