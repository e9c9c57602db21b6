//! One range of executable memory.

use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::file::MappedFile;
use crate::open_failure::OpenFailure;

/// The kind of memory in a range.
#[derive(Clone, Debug)]
pub enum RegionKind {
    /// A mapped file, ELF or not, whether or not it could be opened.
    File(Arc<MappedFile>),
    /// The kernel's vDSO.
    Vdso(Arc<MappedFile>),
    /// No file, or a file that exists in memory only and is not ELF: code made at run time.
    Anonymous,
    /// Code that CPython makes for each of its functions. The file is made in memory and says how to unwind the code.
    Trampolines(Arc<MappedFile>),
    /// The legacy page of system calls at a fixed address.
    Vsyscall,
}

impl RegionKind {
    /// The file.
    #[must_use]
    pub fn file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Self::File(file) | Self::Vdso(file) | Self::Trampolines(file) => Some(file),
            Self::Anonymous | Self::Vsyscall => None,
        }
    }

    pub(crate) fn is_trampolines(&self) -> bool {
        matches!(self, Self::Trampolines(_))
    }

    pub(crate) fn is_unreadable_file(&self) -> bool {
        let failure = self.file().and_then(|file| file.failure());
        failure.is_some_and(|failure| failure != OpenFailure::NotRegular)
    }

    fn continues(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::File(before), Self::File(this)) => Arc::ptr_eq(before, this),
            (Self::Anonymous, Self::Anonymous) => true,
            _ => false,
        }
    }
}

/// A range of executable memory.
#[derive(Clone, Debug)]
pub struct Region {
    /// First address.
    pub start: Avma,
    /// First address after it.
    pub end: Avma,
    /// Position in the file of `start`; 0 where there is no file.
    pub offset: FileOffset,
    /// The mapped file, if there is one, and what the range is.
    pub kind: RegionKind,
}

impl Region {
    /// The position in the file of an address inside of this region.
    #[must_use]
    pub fn offset_of(&self, address: Avma) -> FileOffset {
        FileOffset(address.0.wrapping_sub(self.start.0).wrapping_add(self.offset.0))
    }

    /// Whether this region and the one before it are parts of the same mapping.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        let in_place =
            matches!(self.kind, RegionKind::Anonymous) || before.offset_of(self.start) == self.offset;
        before.end == self.start && in_place && self.kind.continues(&before.kind)
    }
}
