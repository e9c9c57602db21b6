//! Executable mappings of a process, and their form in the table pool.

use crate::TableHandle;
use crate::abi::skeleton::types;

pub(crate) const MAPPING_WORDS: u32 = (size_of::<types::mapping>() / 4) as u32;

/// How code in a mapping is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingKind {
    /// By the table at this address in the table pool; see [`KernelMapping::with_table`].
    Table(u32),
    /// By frame pointers: the file has no unwind information.
    FramePointers,
    /// Not yet: its table is still being compiled.
    NotReady,
    /// There is no mapping: stacks led here, and the process was read since. Such a stack is not sent unwalked.
    Nowhere,
}

/// An executable mapping as the programs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMapping {
    /// First address in the process.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Address in the process minus link-time address.
    pub bias: u64,
    /// How to unwind code in it.
    pub kind: MappingKind,
}

impl KernelMapping {
    /// The kind for a file whose table is installed.
    #[must_use]
    pub fn with_table(table: &TableHandle) -> MappingKind {
        MappingKind::Table(table.address)
    }
}

/// The words of a `struct mapping`.
pub(crate) fn mapping_words(mapping: &KernelMapping) -> [u32; MAPPING_WORDS as usize] {
    let (kind, table) = match mapping.kind {
        MappingKind::Table(address) => (types::mapping_kind::MAPPING_TABLE, address),
        MappingKind::FramePointers => (types::mapping_kind::MAPPING_FP, 0),
        MappingKind::NotReady => (types::mapping_kind::MAPPING_NOT_READY, 0),
        MappingKind::Nowhere => (types::mapping_kind::MAPPING_NOWHERE, 0),
    };
    let low = |value: u64| value as u32;
    let high = |value: u64| (value >> 32) as u32;
    [
        low(mapping.start),
        high(mapping.start),
        low(mapping.end),
        high(mapping.end),
        low(mapping.bias),
        high(mapping.bias),
        table,
        kind.0,
    ]
}
