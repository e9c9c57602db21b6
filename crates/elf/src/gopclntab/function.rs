//! What the table says of one function.

use super::version::Version;

/// `FuncFlagSPWrite`: the function loads the stack pointer with something that its table cannot say.
const FLAG_WRITES_SP: u8 = 2;

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
    pub(super) name: u32,
    pub(super) stack_sizes: u32,
    pub(super) file_numbers: u32,
    pub(super) lines: u32,
    pub(super) unit: u32,
    /// The tables of values for each instruction, then the other data of the function.
    pub(super) arrays: &'t [u8],
    pub(super) pcdata_count: u32,
    pub(super) funcdata_count: u8,
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

impl<'t> Function<'t> {
    /// Reads a description, of a function between two positions.
    pub(super) fn parse(version: Version, description: &'t [u8], start: u64, end: u64) -> Option<Self> {
        // The start again; it is 8 bytes long where it is an address.
        let fields = description.get(if version == Version::Go116 { 8 } else { 4 }..)?;
        let has_start_line = version >= Version::Go120;
        let flags_at = if has_start_line { 36 } else { 32 };
        let &[_id, flags, _, funcdata_count] = fields.get(flags_at..)?.first_chunk()?;
        Some(Self {
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
}

/// The number at an index of a table of 4-byte numbers.
#[inline]
pub(super) fn word(bytes: &[u8], index: u32) -> Option<u32> {
    let at = (index as usize).checked_mul(4)?;
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
