//! The files that processes map, and how the caller finds them.

use std::ops::Range;

use elf::Headers;
use indexmap::IndexMap;
use profile::{BuildId, FileOffset, Function, Mapping, Svma};

use crate::budget::{Budget, Full};
use crate::record::Inode;

/// Mappings begin and end at pages.
const PAGE: u64 = 4096;

/// What is memory, though it has a path; the last one is where .NET puts its code.
const MEMORY: [&str; 4] = ["/dev/zero", "/SYSV", "/anon_hugepage", "/memfd:doublemapper"];

/// What a recording tells of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RecordedFile {
    /// The path under which it was mapped, without ` (deleted)`.
    pub path: String,
    /// Its build-id, if the recording tells it.
    pub build_id: Option<BuildId>,
    /// Which file it was on the machine of the recording, if the recording tells it.
    pub inode: Option<Inode>,
}

/// A file that is that of the recording.
#[derive(Clone, Debug, Default)]
pub struct FoundFile {
    /// Its segments and build-id.
    pub headers: Headers,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed for the last time, ns since the epoch.
    pub mtime_ns: i64,
}

/// The name of code that is in no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundName {
    /// The function.
    pub function: Function,
    /// Line in its file, 0 if unknown.
    pub line: u32,
}

/// Finds the files of a recording, and names of code that is in none. This crate opens none.
pub trait Files {
    /// The file, if it is there and is that of the recording. Asked once for each file that has frames.
    fn find(&mut self, file: &RecordedFile) -> Option<FoundFile>;

    /// Its whole content, for unwinding. Asked once for each file that stacks go through, after it was found.
    fn content(&mut self, file: &RecordedFile) -> Option<Box<dyn AsRef<[u8]>>>;

    /// Tells which machine the recording is of: its name and the release of its kernel. Called before anything is asked, and again when
    /// more is known.
    fn machine(&mut self, _hostname: &str, _release: &str) {}

    /// The build-id of its kernel, asked if the recording tells none.
    fn kernel(&mut self) -> Option<BuildId> {
        None
    }

    /// The function at an address of a process, in memory without a file, where code is that was made at run time. `within`: that memory.
    fn jit_name(&mut self, _pid: i32, _address: u64, _within: Range<u64>) -> Option<FoundName> {
        None
    }

    /// The function at a link-time address in `[vdso]`, after that was found.
    fn vdso_name(&mut self, _address: u64) -> Option<FoundName> {
        None
    }
}

/// Finds nothing: addresses in files stay offsets in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn find(&mut self, _: &RecordedFile) -> Option<FoundFile> {
        None
    }

    fn content(&mut self, _: &RecordedFile) -> Option<Box<dyn AsRef<[u8]>>> {
        None
    }
}

/// What a mapping is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    /// The code that the kernel gives to each process.
    Vdso,
    /// Memory without a file, as of a JIT.
    Anonymous,
}

/// The files so far.
#[derive(Default)]
pub(crate) struct FileTable {
    /// With the answer of the caller, once it was asked.
    files: IndexMap<RecordedFile, Option<Option<FoundFile>>>,
}

impl RecordedFile {
    pub(crate) fn new(path: &str, build_id: Option<BuildId>, inode: Option<Inode>) -> Self {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        Self { path, build_id, inode }
    }

    pub(crate) fn kind(&self) -> Kind {
        let is_memory = |path: &str| path.starts_with("//") || MEMORY.iter().any(|of| path.starts_with(of));
        match self.path.as_str() {
            "[vdso]" => Kind::Vdso,
            path if path.starts_with('/') && !is_memory(path) => Kind::File,
            _ => Kind::Anonymous,
        }
    }
}

impl FileTable {
    /// The number of a file. A new one is added.
    pub(crate) fn number(&mut self, file: RecordedFile, budget: &mut Budget) -> Result<u32, Full> {
        if let Some(number) = self.files.get_index_of(&file) {
            return u32::try_from(number).map_err(|_| Full);
        }
        budget.charge(file.path.len() + 200)?;
        let (number, _) = self.files.insert_full(file, None);
        u32::try_from(number).map_err(|_| Full)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&RecordedFile> {
        self.files.get_index(number as usize).map(|(file, _)| file)
    }

    /// The file as the caller found it.
    pub(crate) fn found(&mut self, number: u32, by: &mut dyn Files) -> Option<&FoundFile> {
        let (file, answer) = self.files.get_index_mut(number as usize)?;
        if file.kind() == Kind::Anonymous {
            return None;
        }
        answer.get_or_insert_with(|| by.find(file)).as_ref()
    }

    /// The files that have frames and were not found.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &RecordedFile> {
        let is_missing = |file: &RecordedFile, answer: &Option<_>| {
            matches!(answer, Some(None)) && file.kind() == Kind::File
        };
        self.files.iter().filter(move |(file, answer)| is_missing(file, answer)).map(|(file, _)| file)
    }

    /// The link-time address of a position in a file; none of a file that was not found.
    pub(crate) fn svma(&mut self, number: u32, offset: u64, by: &mut dyn Files) -> Option<u64> {
        let of = segment_at(&self.found(number, by)?.headers, offset)?;
        Some(of.start.0.wrapping_add(offset.wrapping_sub(of.file_offset.0)))
    }

    /// The mapping of a profile for a position in a file, and the address there. Of a file that was not found, and of a position in no
    /// segment, addresses are offsets.
    pub(crate) fn mapping(&mut self, number: u32, offset: u64, by: &mut dyn Files) -> Option<(Mapping, u64)> {
        let found = self.found(number, by);
        // The one that a file has proves later that it is the right one.
        let build_id = found.map(|found| found.headers.build_id.clone());
        let segment = found.and_then(|found| segment_at(&found.headers, offset));
        let size = found.map_or(0, |found| found.size);
        let (start, limit, file_offset) = match segment {
            Some(of) => (of.start.0 & !(PAGE - 1), up(of.limit.0), of.file_offset.0 & !(PAGE - 1)),
            None if size > 0 => (0, up(size.max(offset.saturating_add(1))), 0),
            None => (0, i64::MAX as u64 & !(PAGE - 1), 0),
        };
        let address = self.svma(number, offset, by).unwrap_or(offset);
        let file = self.get(number)?;
        let mapping = Mapping {
            start: Svma(start),
            limit: Svma(limit),
            file_offset: FileOffset(file_offset),
            filename: file.path.clone(),
            build_id: build_id.unwrap_or_else(|| file.build_id.clone()),
        };
        Some((mapping, address))
    }
}

fn up(address: u64) -> u64 {
    address.checked_next_multiple_of(PAGE).unwrap_or(!(PAGE - 1))
}

/// The segment with a position, code before data; else the one whose pages it is in.
fn segment_at(headers: &Headers, offset: u64) -> Option<elf::Segment> {
    let within = |segment: &&elf::Segment| {
        let start = segment.file_offset.0;
        (start..start.saturating_add(segment.file_size)).contains(&offset)
    };
    let in_pages = |segment: &&elf::Segment| {
        let start = segment.file_offset.0;
        (start & !(PAGE - 1)..up(start.saturating_add(segment.file_size))).contains(&offset)
    };
    let code = || headers.segments.iter().filter(|segment| segment.executable);
    let all = || headers.segments.iter();
    code()
        .find(within)
        .or_else(|| code().find(in_pages))
        .or_else(|| all().find(within))
        .or_else(|| all().find(in_pages))
        .copied()
}
