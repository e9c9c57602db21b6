//! A mapped file: its identity, its headers, and its content for as long as it is needed.

mod content;
mod stamp;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use elf::{Headers, Segment};
use profile::{BuildId, FileOffset, Mapping, Svma};
use rustix::fs::{FileType, fstat};

use crate::closer::Closer;
use crate::container_roots::ContainerRoot;
use crate::identity::{self, FileIdentity};
use crate::local_fs;
use crate::open::{self, Opened};
use crate::open_failure::OpenFailure;

use self::content::{Held, Pin};

pub use self::content::{Bytes, Content, OpenFile};
pub use self::stamp::ContentStamp;

/// The key under which unwind tables and symbols are shared: the file itself, whatever its paths are. Not the build-id,
/// which a file claims by itself: a hostile file may claim to be everybody's libc.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    identity: FileIdentity,
    /// Of a file that cannot be opened: the build-id in the memory of a process, if that can be read. Other processes may
    /// show another.
    claimed: Option<Option<BuildId>>,
}

/// Kinds of mapped files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An ELF file of this machine's byte order.
    Elf,
    /// Any other file, also one that cannot be read. File offsets stand for addresses.
    NotElf,
    /// An ELF file in our memory: the vDSO, or a file that says how to unwind code without a file.
    InMemory,
}

/// A file that at least one process maps.
#[derive(Debug)]
pub struct MappedFile {
    identity: FileIdentity,
    path: String,
    kind: FileKind,
    headers: Headers,
    held: Held,
    /// Its file system answers without asking anybody.
    is_local: bool,
    root: Option<ContainerRoot>,
}

/// No file is larger.
const LARGEST_FILE: u64 = i64::MAX as u64;

impl MappedFile {
    /// Opens a file by its path, for tools without a process.
    ///
    /// # Errors
    /// The errno of opening or reading; `InvalidInput` if it is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let stat = fstat(&file)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let identity = FileIdentity::new(&stat, identity::device_and_inode(&stat));
        let opened = Opened { file, identity, found_at: path.to_owned() };
        Self::new(opened, path.to_string_lossy().into_owned(), Some(&Arc::default()), &Closer::default())
    }

    /// Reads the headers. With `pins` the file stays open and is counted there; `closer` closes it if that may block.
    pub(crate) fn new(
        opened: Opened,
        path: String,
        pins: Option<&Arc<AtomicUsize>>,
        closer: &Closer,
    ) -> io::Result<Self> {
        let headers = Headers::read(&|buffer, at| opened.file.read_at(buffer, at))?;
        let kind = if headers.is_some() { FileKind::Elf } else { FileKind::NotElf };
        let is_local = local_fs::always_answers(&opened.file);
        let held = match pins {
            Some(count) => {
                let closer = if is_local { None } else { closer.get() };
                Held::Pinned(Pin::new(opened.file, count, closer))
            }
            None => Held::Reopen(opened.found_at),
        };
        Ok(Self {
            identity: opened.identity,
            path,
            kind,
            headers: headers.unwrap_or_default(),
            held,
            is_local,
            root: None,
        })
    }

    /// A file that cannot be opened. `headers`: those in the memory of a process, if they could be read there.
    pub(crate) fn unreadable(
        identity: FileIdentity,
        path: String,
        failure: OpenFailure,
        headers: Option<Headers>,
    ) -> Self {
        let kind = if headers.is_some() { FileKind::Elf } else { FileKind::NotElf };
        let (headers, held) = (headers.unwrap_or_default(), Held::Unreadable(failure));
        Self { identity, path, kind, headers, held, is_local: true, root: None }
    }

    /// The vDSO from a copy of its memory. None if the copy is no ELF file.
    pub(crate) fn vdso(bytes: Arc<[u8]>) -> Option<Self> {
        let identity = FileIdentity { size: bytes.len() as u64, ..FileIdentity::default() };
        Self::in_memory(bytes, "[vdso]", identity)
    }

    /// A file that is in our memory. None if it is no ELF file.
    pub(crate) fn in_memory(bytes: Arc<[u8]>, path: &str, identity: FileIdentity) -> Option<Self> {
        let headers = Headers::read(&|buffer, at| {
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        });
        let (headers, held) = (headers.ok()??, Held::Memory(bytes));
        Some(Self {
            identity,
            path: path.to_owned(),
            kind: FileKind::InMemory,
            headers,
            held,
            is_local: true,
            root: None,
        })
    }

    /// Which file it is.
    #[must_use]
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Absolute path in the first process that mapped it, without ` (deleted)`; or `[vdso]`. Bytes that are not UTF-8 are
    /// replaced.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The GNU build-id, from the file itself.
    #[must_use]
    pub fn build_id(&self) -> Option<&BuildId> {
        self.headers.build_id.as_ref()
    }

    /// The loaded segments in the order of the program headers; empty if it is no ELF file.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.headers.segments
    }

    /// The key under which its tables and symbols are shared.
    #[must_use]
    pub fn key(&self) -> FileKey {
        FileKey { identity: self.identity, claimed: self.failure().map(|_| self.build_id().cloned()) }
    }

    /// Why the file could not be opened when it was first mapped; none if it was opened.
    #[must_use]
    pub fn failure(&self) -> Option<OpenFailure> {
        match self.held {
            Held::Unreadable(failure) => Some(failure),
            _ => None,
        }
    }

    /// The whole content, mapped. Cheap until it is read.
    ///
    /// # Errors
    /// `NotFound` if the file could not be opened when it was first mapped, or was not kept open and is gone or has changed;
    /// else the errno of mapping it.
    pub fn bytes(&self) -> io::Result<Bytes> {
        match self.open_content()? {
            Content::File(opened) => opened.bytes(),
            Content::Memory(bytes) => Ok(Bytes::from(bytes)),
        }
    }

    /// The content, as an open file unless it is in memory. The file is opened again if it was not kept open.
    ///
    /// # Errors
    /// `NotFound` as for [`Self::bytes`]; else the errno of opening it.
    pub fn open_content(&self) -> io::Result<Content> {
        Ok(match &self.held {
            Held::Pinned(pin) => Content::File(OpenFile::from(Arc::clone(&pin.file))),
            Held::Reopen(path) => Content::File(OpenFile::from(Arc::new(self.reopen(path)?))),
            Held::Memory(bytes) => Content::Memory(Arc::clone(bytes)),
            Held::Unreadable(failure) => {
                let why = format!("{} could not be opened when it was seen: {failure}", self.path);
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
        })
    }

    fn reopen(&self, path: &Path) -> io::Result<File> {
        match open::open_exactly(path, self.identity.device_and_inode()) {
            Ok(opened) if opened.identity == self.identity => Ok(opened.file),
            Ok(_) => {
                let why = format!("{} has changed since it was seen", self.path);
                Err(io::Error::new(io::ErrorKind::NotFound, why))
            }
            Err(failure) => {
                let why = format!("{} was not kept open and cannot be opened again: {failure}", self.path);
                Err(io::Error::new(io::ErrorKind::NotFound, why))
            }
        }
    }

    /// A stamp of the present content. None if the file is not kept open, or if its times and numbers come from a program
    /// in user space or from the maker of a file system image.
    #[must_use]
    pub fn stamp(&self) -> Option<ContentStamp> {
        match &self.held {
            Held::Pinned(pin) => ContentStamp::of(&pin.file),
            _ => None,
        }
    }

    /// Whether the file is kept open.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.held, Held::Pinned(_))
    }

    /// The same file, which a process in this container was the first to map.
    pub(crate) fn in_root(self, root: Option<ContainerRoot>) -> Self {
        Self { root, ..self }
    }

    /// The root directory of the first process that mapped it, if that is not the own one.
    #[must_use]
    pub fn root(&self) -> Option<&ContainerRoot> {
        self.root.as_ref()
    }

    /// Whether its file system answers without asking another program or machine.
    #[must_use]
    pub fn always_answers(&self) -> bool {
        self.is_local
    }

    /// Whether the file still has the size and time that it had when it was opened. False for files that are not kept
    /// open. May block unless [`Self::always_answers`].
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.held {
            Held::Pinned(pin) if self.is_local => {
                local_fs::size_and_mtime(&pin.file) == Some((self.identity.size, self.identity.mtime_ns))
            }
            Held::Pinned(pin) => fstat(&pin.file).is_ok_and(|stat| {
                FileIdentity::new(&stat, self.identity.device_and_inode()) == self.identity
            }),
            Held::Memory(_) => true,
            Held::Reopen(_) | Held::Unreadable(_) => false,
        }
    }

    /// The link-time address of a position in the file. None if no segment is loaded from there.
    #[must_use]
    pub fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        if self.kind == FileKind::NotElf {
            return Some(Svma(offset.0));
        }
        let segment = self.segment_at(offset)?;
        Some(Svma(segment.start.0.wrapping_add(offset.0.wrapping_sub(segment.file_offset.0))))
    }

    /// The profile's mapping for a position: the executable segment, widened to pages. For files that are not ELF, and for
    /// positions in no segment, it is the whole file, with offsets as addresses.
    #[must_use]
    pub fn mapping_for(&self, offset: FileOffset) -> Mapping {
        let mask = page_mask();
        let (start, limit, file_offset) = match self.segment_at(offset) {
            Some(segment) => {
                (segment.start.0 & !mask, round_up(segment.limit.0, mask), segment.file_offset.0 & !mask)
            }
            // Its size is unknown: one mapping for all positions.
            None if self.failure().is_some() => (0, LARGEST_FILE & !mask, 0),
            None => (0, round_up(self.identity.size.max(offset.0.saturating_add(1)), mask), 0),
        };
        Mapping {
            start: Svma(start),
            limit: Svma(limit),
            file_offset: FileOffset(file_offset),
            filename: self.path.clone(),
            build_id: self.build_id().cloned(),
        }
    }

    /// The segment that covers this position, code before data; else the segment whose first or last page covers it.
    fn segment_at(&self, offset: FileOffset) -> Option<&Segment> {
        let mask = page_mask();
        let exact = |segment: &&Segment| {
            offset >= segment.file_offset && offset.0 - segment.file_offset.0 < segment.file_size
        };
        let by_page = |segment: &&Segment| {
            offset.0 >= segment.file_offset.0 & !mask
                && offset.0 < round_up(segment.file_offset.0.saturating_add(segment.file_size), mask)
        };
        let code = || self.headers.segments.iter().filter(|segment| segment.executable);
        let all = || self.headers.segments.iter();
        code()
            .find(exact)
            .or_else(|| code().find(by_page))
            .or_else(|| all().find(exact))
            .or_else(|| all().find(by_page))
    }
}

fn page_mask() -> u64 {
    sys::usage::page_size() as u64 - 1
}

fn round_up(value: u64, mask: u64) -> u64 {
    value.checked_add(mask).map_or(!mask, |sum| sum & !mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_segments(segments: Vec<Segment>) -> MappedFile {
        let headers = Headers { segments, build_id: "00112233".parse().ok() };
        let failure = OpenFailure::Permission;
        MappedFile::unreadable(FileIdentity::default(), "/a b".to_owned(), failure, Some(headers))
    }

    fn segment(start: u64, size: u64, file_offset: u64, executable: bool) -> Segment {
        Segment {
            start: Svma(start),
            limit: Svma(start + size),
            file_offset: FileOffset(file_offset),
            file_size: size,
            executable,
        }
    }

    #[test]
    fn addresses_are_link_time_addresses() {
        // As lld lays files out: the same page of the file belongs to two segments.
        let file =
            with_segments(vec![segment(0x0, 0x1234, 0x0, false), segment(0x2234, 0x5000, 0x1234, true)]);
        assert_eq!(file.svma_of(FileOffset(0x1300)), Some(Svma(0x2300)));
        assert_eq!(
            file.svma_of(FileOffset(0x1200)),
            Some(Svma(0x2200)),
            "in the page that the code begins in"
        );
        assert_eq!(file.svma_of(FileOffset(0x100)), Some(Svma(0x100)));
        assert_eq!(file.svma_of(FileOffset(0x9000)), None);
        let mapping = file.mapping_for(FileOffset(0x1300));
        assert_eq!((mapping.start, mapping.limit), (Svma(0x2000), Svma(0x8000)));
        assert_eq!((mapping.file_offset, &*mapping.filename), (FileOffset(0x1000), "/a b"));
        assert_eq!(mapping.build_id.unwrap().to_string(), "00112233");
    }

    #[test]
    fn the_address_lies_in_the_mapping() {
        let file = MappedFile::open(Path::new("/proc/self/exe")).unwrap();
        let code = file.segments().iter().find(|segment| segment.executable).unwrap();
        for offset in [code.file_offset.0, code.file_offset.0 + code.file_size - 1] {
            let svma = file.svma_of(FileOffset(offset)).unwrap();
            let mapping = file.mapping_for(FileOffset(offset));
            assert!(mapping.start <= svma && svma < mapping.limit);
            assert_eq!(svma.0 - code.start.0, offset - code.file_offset.0);
        }
    }

    #[test]
    fn hostile_segments_do_not_overflow() {
        let file = with_segments(vec![Segment {
            start: Svma(u64::MAX - 10),
            limit: Svma(u64::MAX),
            file_offset: FileOffset(u64::MAX - 10),
            file_size: 10,
            executable: true,
        }]);
        for offset in [0, 5, u64::MAX - 5, u64::MAX] {
            let _ = file.svma_of(FileOffset(offset));
            let _ = file.mapping_for(FileOffset(offset));
        }
    }

    #[test]
    fn other_files_keep_their_offsets() {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&path, vec![b'x'; 5000]).unwrap();
        let file = MappedFile::open(path.path()).unwrap();
        assert_eq!(file.kind(), FileKind::NotElf);
        assert_eq!(file.svma_of(FileOffset(4242)), Some(Svma(4242)));
        let mapping = file.mapping_for(FileOffset(4242));
        assert_eq!((mapping.start.0, mapping.file_offset.0, mapping.limit.0), (0, 0, 8192));
        assert_eq!(file.bytes().unwrap().len(), 5000);
    }

    #[test]
    fn an_unreadable_file_is_one_mapping_with_offsets_as_addresses() {
        let identity = FileIdentity { inode: 7, ..FileIdentity::default() };
        let file = MappedFile::unreadable(identity, "/root/x".to_owned(), OpenFailure::Permission, None);
        assert_eq!((file.kind(), file.failure()), (FileKind::NotElf, Some(OpenFailure::Permission)));
        let mapping = file.mapping_for(FileOffset(4242));
        assert_eq!((mapping.start.0, mapping.file_offset.0, &*mapping.filename), (0, 0, "/root/x"));
        assert!(mapping.limit.0 > 4242 && mapping == file.mapping_for(FileOffset(1 << 40)));
        assert_eq!(file.svma_of(FileOffset(4242)), Some(Svma(4242)));
        assert!(file.bytes().unwrap_err().to_string().contains("permission denied"));
        let claims =
            MappedFile::unreadable(identity, String::new(), OpenFailure::Gone, Some(Headers::default()));
        let vdso = MappedFile { held: Held::Memory(Arc::default()), ..claims };
        assert_ne!(file.key(), vdso.key());
    }

    #[test]
    fn a_deleted_file_stays_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        std::fs::copy("/bin/sh", &path).unwrap();
        let file = MappedFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let original = std::fs::read("/bin/sh").unwrap();
        assert_eq!(*file.bytes().unwrap(), *original);
        let Content::File(opened) = file.open_content().unwrap() else { panic!() };
        assert_eq!(std::fs::read(opened.path()).unwrap(), original);
    }

    #[test]
    fn files_with_the_same_build_id_stay_two() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::fs::copy("/bin/sh", &one).unwrap();
        std::fs::copy("/bin/sh", &two).unwrap();
        let open = |path: &Path| MappedFile::open(path).unwrap();
        assert_eq!(open(&one).build_id(), open(&two).build_id());
        assert_ne!(open(&one).key(), open(&two).key());
        assert_eq!(open(&one).key(), open(&one).key());
        let unreadable = |id: &str| {
            let headers = Headers { segments: Vec::new(), build_id: id.parse().ok() };
            let failure = OpenFailure::Permission;
            MappedFile::unreadable(FileIdentity::default(), "/x".to_owned(), failure, Some(headers))
        };
        assert_ne!(unreadable("00112233").key(), unreadable("00112244").key());
    }
}
