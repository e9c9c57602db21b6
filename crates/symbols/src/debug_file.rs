//! Separate debug files, as `objcopy --only-keep-debug` and the distributions make them.
//!
//! They are searched in the target's root, then in our own: `DEBUG/.build-id/NN/REST.debug`; the name in `.gnu_debuglink`
//! beside the file, in `.debug/` beside it, and in `DEBUG/DIR/`. In directories that the user named, they are also found by their name. A file is accepted only if its build-id matches, or, if
//! one of the two has no build-id, the checksum of the link.
//!
//! Guaranteed: the target's files are looked up inside of its root, absolute symbolic links included. Only regular files are
//! opened, so a pipe or a device under one of these names does no harm.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::BuildId;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use sys::filemap::FileMap;
use sys::reopen::reopen;

use crate::elf_file::{Bytes, ElfFile};
use crate::object_file::ObjectFile;
use crate::options::Options;

/// Larger debug files are not checksummed and thus not accepted by their link.
const MAX_CHECKSUMMED: usize = 4 << 30;

/// Bytes that are checksummed before the memory of the file is released.
const CHECKSUMMED_AT_ONCE: usize = 64 << 20;

/// Where to look.
pub(crate) struct Search<'a> {
    /// Roots of file systems: the target's, then our own.
    pub roots: Vec<&'a Path>,
    /// Directories with debug files, inside of each root.
    pub debug_dirs: &'a [PathBuf],
    /// Directories in our own root with debug files by name.
    pub named_dirs: &'a [PathBuf],
    /// Further directories with supplementary files in our own root.
    pub supplementary_dirs: &'a [PathBuf],
    /// Path of the mapped file inside of the target's root.
    pub path: &'a Path,
}

/// A supplementary file.
pub(crate) struct Alternate {
    pub file: File,
    pub elf: ElfFile,
    /// Whether it is of one of [`Search::supplementary_dirs`].
    pub is_fetched: bool,
}

/// Opens a file by its path inside of `root`, if it is a regular file.
pub(crate) fn open_inside(root: &Path, path: &Path) -> Option<File> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let handle = OFlags::PATH | OFlags::CLOEXEC;
    let root_fd = open(root, handle | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(&root_fd, relative, handle, Mode::empty(), inside) {
        // Some sandboxes refuse openat2. In our own root, openat does the same.
        Err(Errno::NOSYS | Errno::PERM) if root == Path::new("/") => {
            rustix::fs::openat(CWD, Path::new("/").join(relative), handle, Mode::empty()).ok()?
        }
        other => other.ok()?,
    };
    open_checked(&file)
}

/// Opens a file that the caller chose, if it is a regular file.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    open_checked(&open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?)
}

/// Opens a file for reading through a handle, if it is a regular file: opening a pipe would block, and opening a device may
/// have effects.
fn open_checked(handle: &OwnedFd) -> Option<File> {
    let is_file = FileType::from_raw_mode(fstat(handle).ok()?.st_mode).is_file();
    is_file.then(|| reopen(handle).ok())?
}

/// Maps and parses an open file.
pub(crate) fn load(file: &File) -> Option<ElfFile> {
    ElfFile::parse(Bytes::Mapped(Arc::new(FileMap::new(file).ok()?)))
}

impl<'a> Search<'a> {
    /// Where the debug file of a mapped file may be.
    pub fn of(object: &'a ObjectFile, options: &'a Options) -> Self {
        Self {
            roots: object.root.as_deref().into_iter().chain([Path::new("/")]).collect(),
            debug_dirs: &options.debug_dirs,
            named_dirs: &options.named_dirs,
            supplementary_dirs: &options.supplementary_dirs,
            path: Path::new(&object.display_path),
        }
    }

    /// The debug file for `elf`. `build_id`: that of `elf`, also if it is known from elsewhere.
    pub fn debug_file(&self, elf: &ElfFile, build_id: Option<&BuildId>) -> Option<(File, ElfFile)> {
        if let Some(build_id) = build_id
            && let Some(found) = self.by_build_id(build_id).or_else(|| self.by_name(elf, build_id))
        {
            return Some(found);
        }
        let (name, checksum) = debug_link(elf)?;
        let dir = self.path.parent()?;
        let relative_dir = dir.strip_prefix("/").unwrap_or(dir);
        let mut candidates = vec![dir.join(&name), dir.join(".debug").join(&name)];
        candidates.extend(self.debug_dirs.iter().map(|debug| debug.join(relative_dir).join(&name)));
        for root in &self.roots {
            for path in &candidates {
                let Some(file) = open_inside(root, path) else { continue };
                let Some(candidate) = load(&file) else { continue };
                let matches = match (build_id, candidate.build_id()) {
                    (Some(ours), Some(theirs)) => *ours == theirs,
                    _ => checksum_of(&file) == Some(checksum),
                };
                if matches && candidate.has_dwarf() {
                    return Some((file, candidate));
                }
            }
        }
        None
    }

    /// The supplementary file (made by `dwz`) that a debug file names.
    pub fn alternate(&self, elf: &ElfFile, debug_file: &File) -> Option<Alternate> {
        let (link, build_id) = alternate_link(elf)?;
        let alternate = |is_fetched| move |(file, elf)| Alternate { file, elf, is_fetched };
        let fetched = || in_dirs(Path::new("/"), self.supplementary_dirs, &build_id).map(alternate(true));
        let known = self.by_build_id(&build_id).map(alternate(false));
        if let Some(found) = known.or_else(fetched) {
            return Some(found);
        }
        // Relative to the real path of the debug file, which `/proc` shows.
        let naming = std::fs::read_link(format!("/proc/self/fd/{}", debug_file.as_raw_fd())).ok()?;
        let path = lexically_normal(&naming.parent()?.join(&link));
        self.roots.iter().find_map(|root| {
            let file = open_inside(root, &path)?;
            let candidate = load(&file)?;
            let is_right = candidate.build_id().as_ref() == Some(&build_id);
            is_right.then_some(Alternate { file, elf: candidate, is_fetched: false })
        })
    }

    /// The debug file with a build-id that has the name of the file or of its link.
    fn by_name(&self, elf: &ElfFile, build_id: &BuildId) -> Option<(File, ElfFile)> {
        let own = self.path.file_name().map(|name| [name.as_bytes(), b".debug"].concat());
        let linked = debug_link(elf).map(|(name, _)| name.into_bytes());
        let names: Vec<_> = own.into_iter().chain(linked).map(OsString::from_vec).collect();
        let paths = self.named_dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
        paths.into_iter().find_map(|path| {
            let file = open_regular(&path)?;
            let candidate = load(&file)?;
            let is_right = candidate.build_id().as_ref() == Some(build_id) && candidate.has_dwarf();
            is_right.then_some((file, candidate))
        })
    }

    fn by_build_id(&self, build_id: &BuildId) -> Option<(File, ElfFile)> {
        self.roots.iter().find_map(|root| in_dirs(root, self.debug_dirs, build_id))
    }
}

/// The debug file with a build-id in directories inside of a root.
fn in_dirs(root: &Path, dirs: &[PathBuf], build_id: &BuildId) -> Option<(File, ElfFile)> {
    let name = build_id.path(".debug");
    dirs.iter().find_map(|dir| {
        let file = open_inside(root, &dir.join(&name))?;
        let candidate = load(&file)?;
        (candidate.build_id().as_ref() == Some(build_id)).then_some((file, candidate))
    })
}

/// The path without `..`: each removes the name before it, as the writers of such links intend.
fn lexically_normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The path and the build-id of the supplementary file that the file names.
fn alternate_link(file: &ElfFile) -> Option<(String, BuildId)> {
    let (path, build_id) = elf::alternate_link(file.data(file.section(".gnu_debugaltlink")?))?;
    Some((std::str::from_utf8(path).ok()?.to_owned(), build_id))
}

/// File name and checksum in `.gnu_debuglink`. Names with a directory are refused.
fn debug_link(elf: &ElfFile) -> Option<(String, u32)> {
    let data = elf.data(elf.section(".gnu_debuglink")?);
    let end = data.iter().position(|b| *b == 0)?;
    let name = std::str::from_utf8(&data[..end]).ok()?;
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return None;
    }
    let at = (end + 1).next_multiple_of(4);
    Some((name.to_owned(), u32::from_le_bytes(*data.get(at..)?.first_chunk()?)))
}

fn checksum_of(file: &File) -> Option<u32> {
    let map = FileMap::new(file).ok()?;
    if map.len() > MAX_CHECKSUMMED {
        return None;
    }
    let mut crc = flate2::Crc::new();
    for part in map.chunks(CHECKSUMMED_AT_ONCE) {
        crc.update(part);
        map.release();
    }
    Some(crc.sum())
}
