//! One range of executable memory, and the mapped file that is still to be opened.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use profile::{Avma, FileOffset};

use crate::file::MappedFile;
use crate::identity::{DeviceAndInode, FileIdentity};
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
    /// A page that the kernel adds to a process, not code of a program: the legacy page of system calls, or that of
    /// uprobes. The walker knows how to leave it.
    KernelPage,
    /// A mapped file that is still to be opened.
    Opening(Arc<OpeningFile>),
}

/// A mapped file that is still to be opened. All regions that wait for it share it, also those of children.
#[derive(Debug)]
pub struct OpeningFile {
    wanted: DeviceAndInode,
    path: String,
    /// Memory that may be a copy of its text waits for it: the answer is not about the file.
    is_copy: bool,
    /// A process that is no target maps it.
    is_of_other: AtomicBool,
    answer: OnceLock<RegionKind>,
    unanswered: OnceLock<Arc<MappedFile>>,
}

impl OpeningFile {
    pub(crate) fn new(wanted: DeviceAndInode, path: String) -> Self {
        Self {
            wanted,
            path,
            is_copy: false,
            is_of_other: AtomicBool::new(false),
            answer: OnceLock::new(),
            unanswered: OnceLock::new(),
        }
    }

    /// Turns it into the question whether memory is a copy of the file's text.
    pub(crate) fn of_copy(self) -> Self {
        Self { is_copy: true, ..self }
    }

    /// Whether memory that may be a copy of its text waits for it.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Notes that the process that maps it is no target: that the file cannot be opened is not worth a warning.
    pub fn set_of_no_target(&self) {
        self.is_of_other.store(true, Ordering::Relaxed);
    }

    /// Whether a target maps it.
    pub(crate) fn is_of_target(&self) -> bool {
        !self.is_of_other.load(Ordering::Relaxed)
    }

    /// Whether it is known by now what it is.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answer.get().is_some()
    }

    /// The file as its mapping alone tells it: path, device and inode.
    pub fn unanswered(&self) -> &Arc<MappedFile> {
        self.unanswered.get_or_init(|| {
            let (dev_major, dev_minor, inode) = self.wanted;
            let identity = FileIdentity { dev_major, dev_minor, inode, ..FileIdentity::default() };
            Arc::new(MappedFile::unreadable(identity, self.path.clone(), OpenFailure::NoAnswer, None))
        })
    }

    pub(crate) fn wanted(&self) -> DeviceAndInode {
        self.wanted
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn answer(&self) -> Option<&RegionKind> {
        self.answer.get()
    }

    /// Enters what it is. False if an answer was entered before.
    pub(crate) fn settle(&self, kind: RegionKind) -> bool {
        self.answer.set(kind).is_ok()
    }
}

impl RegionKind {
    /// The file, if it is known by now.
    #[must_use]
    pub fn file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Self::File(file) | Self::Vdso(file) | Self::Trampolines(file) => Some(file),
            Self::Opening(file) => file.answer()?.file(),
            Self::Anonymous | Self::KernelPage => None,
        }
    }

    pub(crate) fn is_trampolines(&self) -> bool {
        matches!(self, Self::Trampolines(_))
    }

    /// Whether it is a file, opened or not, whose name begins as that of a jitdump does: `jit-PID.dump`, or `jit-TID-PID-RANDOM`.
    #[must_use]
    pub fn has_name_of_jit_dump(&self) -> bool {
        let path = match self {
            Self::File(file) => file.path(),
            Self::Opening(file) => file.path(),
            _ => return false,
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        name.strip_prefix("jit-").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// Whether both are one file, also if one of them was to be opened.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        match (self.now(), other.now()) {
            (Self::Opening(one), Self::Opening(other)) => Arc::ptr_eq(one, other),
            (Self::File(one), Self::File(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether it is code in a file that could not be opened. Devices do not count.
    pub(crate) fn is_unreadable_file(&self) -> bool {
        let failure = self.file().and_then(|file| file.failure());
        failure.is_some_and(|failure| failure != OpenFailure::NotRegular)
    }

    /// The answer, if this is a file that was to be opened.
    fn now(&self) -> &Self {
        match self {
            Self::Opening(file) => file.answer().unwrap_or(self),
            kind => kind,
        }
    }

    fn continues(&self, before: &Self) -> bool {
        match (before.now(), self.now()) {
            (Self::Opening(before), Self::Opening(this)) => Arc::ptr_eq(before, this),
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
    /// What it was when it was first seen. A file that was to be opened then may be known by now.
    pub(crate) seen: RegionKind,
}

impl Region {
    /// A range of memory of a kind.
    #[must_use]
    pub fn new(start: Avma, end: Avma, offset: FileOffset, kind: RegionKind) -> Self {
        Self { start, end, offset, seen: kind }
    }

    /// What the range is, as far as it is known by now.
    #[must_use]
    pub fn kind(&self) -> &RegionKind {
        self.seen.now()
    }

    /// The mapped file, if there is one and it is known by now.
    #[must_use]
    pub fn file(&self) -> Option<&Arc<MappedFile>> {
        self.kind().file()
    }

    /// Whether this is the answer to the question whether such memory is a copy of text at a position in a file.
    pub(crate) fn is_copy_of_text(&self, range: Range<u64>, offset: FileOffset) -> bool {
        let is_asked = matches!(&self.seen, RegionKind::Opening(file) if file.is_copy());
        is_asked && (self.start.0..self.end.0) == range && self.offset == offset
    }

    /// Device and inode of the mapped file, if there is one.
    pub(crate) fn wanted(&self) -> Option<DeviceAndInode> {
        match &self.seen {
            RegionKind::Opening(file) => Some(file.wanted()).filter(|_| !file.is_copy()),
            RegionKind::File(file) => Some(file.identity().device_and_inode()),
            _ => None,
        }
    }

    /// The position in the file of an address inside of this region.
    #[must_use]
    pub fn offset_of(&self, address: Avma) -> FileOffset {
        FileOffset(address.0.wrapping_sub(self.start.0).wrapping_add(self.offset.0))
    }

    /// Whether this region and the one before it are parts of the same mapping.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        let in_place =
            matches!(self.kind(), RegionKind::Anonymous) || before.offset_of(self.start) == self.offset;
        before.end == self.start && in_place && self.seen.continues(&before.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitdumps_have_usual_names() {
        let is = |path: &str| {
            RegionKind::Opening(Arc::new(OpeningFile::new((1, 2, 3), path.to_owned()))).has_name_of_jit_dump()
        };
        for path in ["/tmp/jit-1.dump", "/srv/app/jit-4711.dump", "jit-1.dump", "/tmp/jit-12-12-KX7a9"] {
            assert!(is(path), "{path}");
        }
        for path in ["/tmp/jit-.dump", "/tmp/jit-x.dump", "/jit-1.dump/x", "/usr/lib/libjit.so"] {
            assert!(!is(path), "{path}");
        }
        assert!(!RegionKind::Anonymous.has_name_of_jit_dump());
    }
}
