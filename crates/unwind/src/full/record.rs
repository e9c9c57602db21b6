//! One function's record in a frame section.

use gimli::BaseAddresses;
use gimli::EndianSlice;
use gimli::LittleEndian;
use gimli::UnwindSection;

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Longer records are refused, because each step runs all their instructions again; such functions are stepped by compact
/// rules only. The longest records of LLVM and similar programs have a third of this.
const MAX_RECORD: usize = 64 << 10;
/// The same limit for common entries; 40 bytes are usual.
const MAX_COMMON: usize = 1 << 10;

/// Reads the record at an offset.
pub(super) fn read<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
) -> Option<gimli::FrameDescriptionEntry<Slice<'a>>> {
    let partial = section.partial_fde_from_offset(bases, offset).ok()?;
    if partial.entry_len() > MAX_RECORD {
        return None;
    }
    partial.parse(S::cie_from_offset).ok().filter(|function| function.cie().entry_len() <= MAX_COMMON)
}
