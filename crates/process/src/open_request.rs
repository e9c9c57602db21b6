//! The request to open a mapped file. Opening may block for as long as its file system likes, so a worker does it (`opener.rs`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elf::Headers;

use crate::file::MappedFile;
use crate::files::Files;
use crate::identity::{DeviceAndInode, FileIdentity};
use crate::open::Paths;
use crate::open_failure::OpenFailure;
use crate::region::{OpeningFile, RegionKind};
use crate::resolve::{Mapping, as_target_sees, is_memfd, of_opened, path_of, shown};
use crate::text_copy::TextCopy;

/// What a worker needs to open a mapped file.
#[derive(Debug)]
pub struct OpenRequest {
    file: Arc<OpeningFile>,
    pid: u32,
    /// `/proc/PID`, or the directory of a thread.
    proc_dir: PathBuf,
    /// The root of the process, if it is not the reader's.
    root: Option<Vec<u8>>,
    range: (u64, u64),
    /// As the kernel shows it, with the mark of deleted files.
    raw_path: Vec<u8>,
    /// Where the first byte of the file is mapped, if it is mapped.
    head: Option<(u64, u64)>,
    /// The question is whether this memory is a copy of the file's text.
    copy: Option<TextCopy>,
}

impl OpenRequest {
    pub(crate) fn new(pid: u32, proc_dir: &Path, root: Option<&[u8]>, mapping: &Mapping<'_>) -> Self {
        let path = shown(&as_target_sees(crate::maps::without_deleted(&mapping.path), root));
        Self {
            file: Arc::new(OpeningFile::new(mapping.file, path)),
            pid,
            proc_dir: proc_dir.to_owned(),
            root: root.map(<[u8]>::to_vec),
            range: (mapping.start, mapping.end),
            raw_path: mapping.path.to_vec(),
            head: mapping.head,
            copy: None,
        }
    }

    /// The question whether memory is a copy of the text of a file, which is known by its number and its path.
    pub(crate) fn of_copy(copy: TextCopy, wanted: DeviceAndInode, path: &str) -> Self {
        let proc_dir = PathBuf::from(format!("/proc/{}", copy.pid));
        // Only its path leads to the file.
        let (start, end) = (0, 0);
        let path = path.as_bytes().into();
        let mapping = Mapping { start, end, offset: copy.offset.0, file: wanted, path, head: None };
        Self::new(copy.pid, &proc_dir, None, &mapping).about_copy(copy)
    }

    /// Asks whether memory is a copy of the text of the file.
    pub(crate) fn about_copy(self, copy: TextCopy) -> Self {
        let (wanted, path) = (self.file.wanted(), self.file.path().to_owned());
        let file = Arc::new(OpeningFile::new(wanted, path).of_copy());
        Self { file, copy: Some(copy), ..self }
    }

    /// The file that it is about.
    #[must_use]
    pub fn file(&self) -> &Arc<OpeningFile> {
        &self.file
    }

    /// The process whose memory is compared with the file.
    pub(crate) fn process_of_copy(&self) -> Option<u32> {
        self.copy.as_ref().map(|copy| copy.pid)
    }

    /// Opens the file and finds out what it is. May block for as long as its file system likes.
    pub(crate) fn open(&self, files: &Files) -> RegionKind {
        let wanted = self.file.wanted();
        let here = path_of(&self.proc_dir, &self.raw_path, wanted.2);
        let in_target = as_target_sees(here, self.root.as_deref());
        let path = shown(&in_target);
        let in_memory_only = is_memfd(&self.raw_path);
        let paths = Paths {
            in_target: Path::new(OsStr::from_bytes(&in_target)),
            here: Path::new(OsStr::from_bytes(here)),
        };
        let paths = (!in_memory_only).then_some(paths);
        let mapped = files.mapped(&self.proc_dir, self.range, paths, &path, wanted);
        if let Some(copy) = &self.copy {
            let file = mapped.ok().filter(|file| copy.is_of(file));
            return file.map_or(RegionKind::Anonymous, RegionKind::File);
        }
        match mapped {
            Ok(file) => of_opened(file, in_memory_only),
            Err(_) if in_memory_only => RegionKind::Anonymous,
            Err(failure) => {
                files.count_failure(&self.file, failure);
                self.unreadable(path, failure, files)
            }
        }
    }

    /// A file that cannot be opened, with its headers from the memory of the process if they are mapped there.
    fn unreadable(&self, path: String, failure: OpenFailure, files: &Files) -> RegionKind {
        let (dev_major, dev_minor, inode) = self.file.wanted();
        let identity = FileIdentity { dev_major, dev_minor, inode, ..FileIdentity::default() };
        let headers = self.head.and_then(|(start, end)| {
            Headers::read(&|buffer, at| {
                let left = (end - start).saturating_sub(at).min(buffer.len() as u64) as usize;
                if left == 0 { Ok(0) } else { sys::memory::read(self.pid, start + at, &mut buffer[..left]) }
            })
            .ok()?
        });
        let file = MappedFile::unreadable(identity, path, failure, headers);
        RegionKind::File(files.remember_unreadable(file))
    }
}
