//! The table: its header, the list of functions, and what belongs to them.

use std::ffi::CStr;

use super::function::{Function, InlinedCall, word};
use super::values::Values;
use super::version::Version;

/// No program has more functions.
const MAX_FUNCTIONS: u64 = 4 << 20;

/// Names and paths are not longer.
const MAX_TEXT: usize = 64 << 10;
const PCDATA_INLINE_INDEX: u32 = 2;
const FUNCDATA_INLINE_TREE: u32 = 3;

/// The table of functions of a Go program.
#[derive(Clone, Copy, Debug)]
pub struct PcLnTab<'t> {
    /// The layout.
    pub version: Version,
    /// Link-time address of the header.
    pub address: u64,
    /// Bytes of the shortest instruction.
    pub quantum: u8,
    /// How many functions there are.
    pub function_count: u64,
    /// The start of the text, as the header says; 0 in newer versions and before relocation.
    pub text_start: u64,
    /// From the header to the end of its section or segment.
    bytes: &'t [u8],
    /// Positions of the parts. They lie inside of the bytes.
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functab: usize,
}

impl<'t> PcLnTab<'t> {
    /// Reads the header, which is at the beginning of the bytes and at this link-time address.
    #[must_use]
    pub fn parse(bytes: &'t [u8], address: u64) -> Option<Self> {
        let (&[magic @ .., padding_1, padding_2, quantum, pointer], mut rest) =
            bytes.split_first_chunk::<8>()?;
        let version = Version::of_magic(u32::from_le_bytes(magic))?;
        if (padding_1, padding_2, pointer) != (0, 0, 8) || !matches!(quantum, 1 | 2 | 4) {
            return None;
        }
        let mut word = || {
            let (word, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u64::from_le_bytes(*word))
        };
        let (function_count, _file_count) = (word()?, word()?);
        let text_start = if version == Version::Go116 { 0 } else { word()? };
        let mut position = || word().and_then(|at| usize::try_from(at).ok()).filter(|at| *at < bytes.len());
        let (names, units, files, values, functab) =
            (position()?, position()?, position()?, position()?, position()?);
        let this = Self {
            version,
            address,
            quantum,
            function_count,
            text_start,
            bytes,
            names,
            units,
            files,
            values,
            functab,
        };
        // One entry more than functions, whose first half is the end of the last function.
        let table = (function_count as usize).checked_mul(this.entry_size())?.checked_add(functab)?;
        ((1..=MAX_FUNCTIONS).contains(&function_count) && table < bytes.len()).then_some(this)
    }

    /// Link-time address of the names of functions, to which the description of the program points.
    #[must_use]
    pub fn names_address(&self) -> u64 {
        self.address.wrapping_add(self.names as u64)
    }

    /// Bytes of one entry in the list of functions.
    fn entry_size(&self) -> usize {
        if self.version == Version::Go116 { 16 } else { 8 }
    }

    /// The text from a position to the next zero, of at most `max` bytes.
    #[inline]
    fn text(&self, position: usize, max: usize) -> Option<&'t [u8]> {
        let rest = self.bytes.get(position..)?;
        Some(CStr::from_bytes_until_nul(&rest[..rest.len().min(max)]).ok()?.to_bytes())
    }

    /// The function with a number. `None` if its description is malformed.
    #[must_use]
    pub fn function(&self, index: u64) -> Option<Function<'t>> {
        if index >= self.function_count {
            return None;
        }
        let (start, description) = self.entry(index)?;
        let (end, _) = self.entry(index + 1)?;
        Function::parse(self.version, self.bytes.get(self.functab.checked_add(description?)?..)?, start, end)
    }

    /// The function that covers a position, relative to what [`Function::start`] is relative to.
    #[must_use]
    pub fn function_at(&self, position: u64) -> Option<Function<'t>> {
        let list = self.bytes.get(self.functab..)?;
        let count = usize::try_from(self.function_count).ok()?;
        let before = if self.version == Version::Go116 {
            let entries = list.as_chunks::<16>().0.get(..count)?;
            entries.partition_point(|entry| start_of_16(entry) <= position)
        } else {
            let entries = list.as_chunks::<8>().0.get(..count)?;
            entries.partition_point(|entry| start_of_8(entry) <= position)
        };
        let index = before.checked_sub(1)?;
        self.function(index as u64).filter(|function| position < function.end)
    }

    /// Start of a function, and the position of its description in the list of functions.
    #[inline]
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

    #[inline]
    fn values(&self, offset: u32) -> Option<Values<'t>> {
        if offset == 0 {
            return None;
        }
        let bytes = self.values.checked_add(offset as usize).and_then(|at| self.bytes.get(at..));
        Some(Values::new(bytes.unwrap_or_default(), self.quantum))
    }

    #[inline]
    fn value(&self, table: u32, offset: u64) -> Option<i32> {
        self.values(table)?.at(offset)
    }
}

/// Start of a function in an entry of the list, as an address.
#[inline]
fn start_of_16([start @ .., _, _, _, _, _, _, _, _]: &[u8; 16]) -> u64 {
    u64::from_le_bytes(*start)
}

/// The same, relative to the start of the text.
#[inline]
fn start_of_8([start @ .., _, _, _, _]: &[u8; 8]) -> u64 {
    u32::from_le_bytes(*start).into()
}
