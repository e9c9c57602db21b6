//! Finds out what a mapping is, without opening a file: a file, the vDSO, or code without a file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::file::{FileKind, MappedFile};
use crate::files::Files;
use crate::identity::{DeviceAndInode, FileIdentity};
use crate::maps;
use crate::open_failure::OpenFailure;
use crate::region::{Region, RegionKind};
use crate::trampolines;

/// Names of memory that has an inode but no file that can be opened.
const NAMES_WITHOUT_FILE: [&[u8]; 5] = [b"/dev/zero", b"/SYSV", b"/anon_hugepage", b"/[aio]", b"anon_inode:"];

/// The vDSO of 32-bit processes is another one and lies below this address.
const END_OF_32_BIT: u64 = 1 << 32;

/// A mapping that the kernel reported after the process was read.
#[derive(Clone, Copy, Debug)]
pub struct NewMapping<'a> {
    /// First address.
    pub start: Avma,
    /// Bytes.
    pub len: u64,
    /// Position in the file.
    pub offset: FileOffset,
    /// Major number of the device.
    pub dev_major: u32,
    /// Minor number of the device.
    pub dev_minor: u32,
    /// Inode.
    pub inode: u64,
    /// Whether it is code.
    pub executable: bool,
    /// The path in the view of the process; a name such as `//anon` if there is no file.
    pub path: &'a [u8],
}

/// A mapping, most of the time an executable one.
#[derive(Clone)]
pub(crate) struct Mapping<'a> {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub file: DeviceAndInode,
    /// As the kernel shows it to this process, with the mark of deleted files. Newlines are not escaped.
    pub path: Cow<'a, [u8]>,
    /// Where the first byte of the file is mapped, if it is mapped.
    pub head: Option<(u64, u64)>,
}

impl<'a> NewMapping<'a> {
    pub(crate) fn to_mapping(self, end: Avma) -> Mapping<'a> {
        Mapping {
            start: self.start.0,
            end: end.0,
            offset: self.offset.0,
            file: (self.dev_major, self.dev_minor, self.inode),
            path: Cow::Borrowed(self.path),
            head: (self.offset.0 == 0).then_some((self.start.0, end.0)),
        }
    }
}

/// The regions of a mapping: one, or several where parts of memory without a file are trampolines.
pub(crate) fn regions_of(
    pid: u32,
    mapping: &Mapping<'_>,
    kind: RegionKind,
    room: usize,
    files: &Files,
) -> Vec<Region> {
    let (start, end) = (Avma(mapping.start), Avma(mapping.end));
    match kind {
        RegionKind::Anonymous => {
            let read = |parts| files.read_memory(pid, parts);
            trampolines::split(start, end, room, read, |layout| files.trampolines(layout))
        }
        kind => vec![Region::new(start, end, FileOffset(mapping.offset), kind)],
    }
}

/// The path of a file without the kernel's mark for deleted files. The name of the file may end in the same way.
pub(crate) fn path_of<'a>(proc_dir: &Path, shown: &'a [u8], inode: u64) -> &'a [u8] {
    let plain = maps::without_deleted(shown);
    if plain.len() == shown.len() {
        return plain;
    }
    let whole = Path::new(OsStr::from_bytes(shown));
    let in_target = whole.strip_prefix("/").map(|inside| proc_dir.join("root").join(inside));
    let is_it = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode);
    if in_target.is_ok_and(|path| is_it(&path)) || is_it(whole) { shown } else { plain }
}

pub(crate) fn as_target_sees<'a>(path: &'a [u8], root: Option<&[u8]>) -> Cow<'a, [u8]> {
    let inside = root.and_then(|root| path.strip_prefix(root)).filter(|rest| rest.starts_with(b"/"));
    Cow::Borrowed(inside.unwrap_or(path))
}

pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// What a mapping is, as far as its name tells. `None`: a file.
pub(crate) fn without_file(mapping: &Mapping<'_>, files: &Files) -> Option<RegionKind> {
    let raw_path = &*mapping.path;
    match raw_path {
        b"[vdso]" => Some(vdso(mapping, files)),
        b"[vsyscall]" | b"[uprobes]" => Some(RegionKind::KernelPage),
        _ if mapping.file.2 == 0 => Some(RegionKind::Anonymous),
        _ if NAMES_WITHOUT_FILE.iter().any(|name| raw_path.starts_with(name)) => Some(RegionKind::Anonymous),
        _ => None,
    }
}

/// A mapped file, if it is known and surely unchanged. Does not block.
pub(crate) fn file_at_hand(mapping: &Mapping<'_>, files: &Files) -> Option<RegionKind> {
    files.at_hand(mapping.file).map(|file| of_opened(file, is_memfd(&mapping.path)))
}

/// Whether a mapping shows a file that exists in memory only. It holds a program to execute, or code that a JIT compiler writes.
pub(crate) fn is_memfd(raw_path: &[u8]) -> bool {
    raw_path.starts_with(b"/memfd:")
}

/// What a mapping of an opened file is.
pub(crate) fn of_opened(file: Arc<MappedFile>, in_memory_only: bool) -> RegionKind {
    if in_memory_only && file.kind() != FileKind::Elf {
        RegionKind::Anonymous
    } else {
        RegionKind::File(file)
    }
}

fn vdso(mapping: &Mapping<'_>, files: &Files) -> RegionKind {
    let size = mapping.end - mapping.start;
    match files.vdso() {
        Some(vdso) if mapping.start >= END_OF_32_BIT && vdso.identity().size == size => {
            RegionKind::Vdso(vdso)
        }
        _ => {
            let identity = FileIdentity { size, ..FileIdentity::default() };
            let (path, failure) = ("[vdso]".to_owned(), OpenFailure::NotRegular);
            let other = MappedFile::unreadable(identity, path, failure, None);
            RegionKind::File(files.remember_unreadable(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_request::OpenRequest;

    #[test]
    fn paths_are_in_the_view_of_the_target() {
        assert_eq!(&*as_target_sees(b"/jail/bin/x", Some(b"/jail")), b"/bin/x");
        assert_eq!(&*as_target_sees(b"/jailer/bin/x", Some(b"/jail")), b"/jailer/bin/x");
        assert_eq!(&*as_target_sees(b"/bin/x", None), b"/bin/x");
    }

    #[test]
    fn a_file_name_may_end_with_the_mark_for_deleted_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my prog (deleted)");
        fs::write(&path, "x").unwrap();
        let (shown, inode) = (path.as_os_str().as_bytes(), fs::metadata(&path).unwrap().ino());
        let proc_dir = Path::new("/proc/self");
        let plain = shown.strip_suffix(b" (deleted)").unwrap();
        assert_eq!(path_of(proc_dir, shown, inode), shown);
        assert_eq!(path_of(proc_dir, shown, inode + 1), plain, "another file");
        assert_eq!(path_of(proc_dir, plain, inode), plain);
        fs::remove_file(&path).unwrap();
        assert_eq!(path_of(proc_dir, shown, inode), plain);
    }

    #[test]
    fn memory_without_a_file_is_anonymous() {
        let files = Files::with_budget(0);
        let kind = |path: &'static [u8], inode| {
            let mapping = Mapping {
                start: 0x1000,
                end: 0x2000,
                offset: 0,
                file: (0, 1, inode),
                path: path.into(),
                head: None,
            };
            let open = || OpenRequest::new(1, Path::new("/proc/self"), None, &mapping).open(&files);
            without_file(&mapping, &files).unwrap_or_else(open)
        };
        for (path, inode) in [
            (&b""[..], 0),
            (b"[heap]", 0),
            (b"[stack]", 0),
            (b"//anon", 0),
            (b"[anon:v8]", 0),
            (b"/dev/zero (deleted)", 7),
            (b"/memfd:jit (deleted)", 7),
            (b"/SYSV00000000 (deleted)", 7),
        ] {
            assert!(matches!(kind(path, inode), RegionKind::Anonymous), "{}", shown(path));
        }
        assert!(matches!(kind(b"[vsyscall]", 0), RegionKind::KernelPage));
        assert!(matches!(kind(b"[uprobes]", 0), RegionKind::KernelPage));
        let RegionKind::File(file) = kind(b"/no/such/file (deleted)", 7) else { panic!() };
        assert_eq!((file.path(), file.failure()), ("/no/such/file", Some(OpenFailure::Gone)));
        assert_eq!((file.identity().inode, file.kind()), (7, FileKind::NotElf));
    }
}
