//! From `/proc/PID/maps` to an [`Image`].

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use profile::{Avma, FileOffset};

use crate::elf;
use crate::file::{FileIdentity, FileKind, MappedFile};
use crate::files::Files;
use crate::image::{Image, NewMapping, Region, RegionKind};
use crate::open::{DeviceAndInode, OpenFailure, Paths};
use crate::{Error, maps, task, trampolines};

/// Names that the kernel gives to memory that has an inode, but no file that anybody could open.
const NAMES_WITHOUT_FILE: [&[u8]; 5] = [b"/dev/zero", b"/SYSV", b"/anon_hugepage", b"/[aio]", b"anon_inode:"];

/// 32-bit processes have another vDSO, below this address.
const END_OF_32_BIT: u64 = 1 << 32;

/// An executable mapping.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    file: DeviceAndInode,
    /// As the kernel shows it to this process, newlines and the mark of deleted files as they are.
    path: Cow<'a, [u8]>,
    /// Where the beginning of the file is mapped, if it is.
    head: Option<(u64, u64)>,
}

/// Reads the executable memory of a process and opens the files behind it.
///
/// # Errors
/// [`Error::Gone`] if the process does not exist, ended, or another one took its PID meanwhile;
/// [`Error::Permission`] without the right to trace it.
pub fn read_image(pid: u32, files: &Files) -> Result<Image, Error> {
    let before = task::stat(pid)?;
    let mut proc_dir = PathBuf::from(format!("/proc/{pid}"));
    let (mut mappings, mut complete) = executable_mappings(pid, &proc_dir)?;
    if mappings.is_empty() && !before.is_kernel_thread {
        // The first thread may have ended before the others; it has no memory any more.
        for tid in task::threads(pid)?.into_iter().filter(|&tid| tid != pid) {
            proc_dir = PathBuf::from(format!("/proc/{tid}"));
            (mappings, complete) = executable_mappings(pid, &proc_dir)?;
            if !mappings.is_empty() {
                break;
            }
        }
    }
    let root = foreign_root(&proc_dir);
    let mut regions = Vec::with_capacity(mappings.len());
    let mut room = trampolines::MAX_OF_IMAGE;
    for mapping in &mappings {
        let kind = resolve(pid, &proc_dir, root.as_deref(), mapping, files);
        let parts = regions_of(pid, mapping, kind, room, files);
        room = room.saturating_sub(parts.iter().filter(|part| part.kind.is_trampolines()).count());
        regions.extend(parts);
    }
    let exe = fs::read_link(proc_dir.join("exe")).ok().map(|path| {
        let inode = fs::metadata(proc_dir.join("exe")).map_or(0, |exe| exe.ino());
        let path = path_of(&proc_dir, path.as_os_str().as_bytes(), inode).to_vec();
        shown(&as_target_sees(&path, root.as_deref()))
    });
    let comm = task::comm(pid)?;
    if task::start_time(pid)? != before.start_time_ticks {
        return Err(Error::Gone { pid });
    }
    let mut image = Image::new(pid, before.start_time_ticks, comm, exe, regions);
    image.complete = complete;
    Ok(image)
}

/// A mapping as regions: one, unless it is made of several parts without a file.
fn regions_of(pid: u32, mapping: &Mapping<'_>, kind: RegionKind, room: usize, files: &Files) -> Vec<Region> {
    let (start, end) = (Avma(mapping.start), Avma(mapping.end));
    match kind {
        RegionKind::Anonymous => {
            trampolines::split(pid, start, end, room, |layout| files.trampolines(layout))
        }
        kind => vec![Region { start, end, offset: FileOffset(mapping.offset), kind }],
    }
}

/// What a mapping is that the kernel reported; `room`: for so many arenas of trampolines.
pub(crate) fn resolve_new(
    pid: u32,
    new: &NewMapping<'_>,
    end: Avma,
    room: usize,
    files: &Files,
) -> Vec<Region> {
    let mapping = Mapping {
        start: new.start.0,
        end: end.0,
        offset: new.offset.0,
        file: (new.dev_major, new.dev_minor, new.inode),
        path: Cow::Borrowed(new.path),
        head: (new.offset.0 == 0).then_some((new.start.0, end.0)),
    };
    let kind = resolve(pid, Path::new(&format!("/proc/{pid}")), None, &mapping, files);
    regions_of(pid, &mapping, kind, room, files)
}

fn executable_mappings(pid: u32, proc_dir: &Path) -> Result<(Vec<Mapping<'static>>, bool), Error> {
    let path = proc_dir.join("maps");
    let mut found: Vec<Mapping<'static>> = Vec::new();
    let mut head = None;
    let read = File::open(&path).and_then(|file| {
        maps::for_each(file, |entry| {
            let file = (entry.dev_major, entry.dev_minor, entry.inode);
            if entry.offset == 0 && entry.inode != 0 {
                head = Some((file, (entry.start, entry.end)));
            }
            if entry.executable {
                found.push(Mapping {
                    start: entry.start,
                    end: entry.end,
                    offset: if entry.inode == 0 { 0 } else { entry.offset },
                    file,
                    path: Cow::Owned(maps::unescape(entry.path)),
                    head: head.filter(|&(of, _)| of == file).map(|(_, range)| range),
                });
            }
        })
    });
    let complete = read.map_err(|source| Error::of(pid, &path, source))?;
    Ok((found, complete))
}

/// The root of a process that lives under another root in the same mount namespace: `/proc/PID/maps` shows paths
/// from the reader's root then.
fn foreign_root(proc_dir: &Path) -> Option<Vec<u8>> {
    let root = fs::read_link(proc_dir.join("root")).ok()?;
    (root != Path::new("/")).then(|| root.into_os_string().as_bytes().to_vec())
}

/// The path of a file without the kernel's mark of deleted ones. The file itself may have such a name.
fn path_of<'a>(proc_dir: &Path, shown: &'a [u8], inode: u64) -> &'a [u8] {
    let plain = maps::without_deleted(shown);
    if plain.len() == shown.len() {
        return plain;
    }
    let whole = Path::new(OsStr::from_bytes(shown));
    let in_target = whole.strip_prefix("/").map(|inside| proc_dir.join("root").join(inside));
    let is_it = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode);
    if in_target.is_ok_and(|path| is_it(&path)) || is_it(whole) { shown } else { plain }
}

fn as_target_sees<'a>(path: &'a [u8], root: Option<&[u8]>) -> Cow<'a, [u8]> {
    let inside = root.and_then(|root| path.strip_prefix(root)).filter(|rest| rest.starts_with(b"/"));
    Cow::Borrowed(inside.unwrap_or(path))
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn resolve(
    pid: u32,
    proc_dir: &Path,
    root: Option<&[u8]>,
    mapping: &Mapping<'_>,
    files: &Files,
) -> RegionKind {
    let raw_path = &*mapping.path;
    match raw_path {
        b"[vdso]" => return vdso(mapping, files),
        b"[vsyscall]" => return RegionKind::Vsyscall,
        _ if mapping.file.2 == 0 => return RegionKind::Anonymous,
        _ if NAMES_WITHOUT_FILE.iter().any(|name| raw_path.starts_with(name)) => {
            return RegionKind::Anonymous;
        }
        _ => {}
    }
    let here = path_of(proc_dir, raw_path, mapping.file.2);
    let in_target = as_target_sees(here, root);
    let path = shown(&in_target);
    let in_memory_only = raw_path.starts_with(b"/memfd:");
    let paths = Paths {
        in_target: Path::new(OsStr::from_bytes(&in_target)),
        here: Path::new(OsStr::from_bytes(here)),
    };
    let paths = (!in_memory_only).then_some(paths);
    match files.mapped(proc_dir, (mapping.start, mapping.end), paths, &path, mapping.file) {
        // Programs are executed from such memory, and compilers at run time write into it.
        Ok(file) if in_memory_only && file.kind() != FileKind::Elf => RegionKind::Anonymous,
        Ok(file) => RegionKind::File(file),
        Err(_) if in_memory_only => RegionKind::Anonymous,
        Err(failure) => {
            files.count_failure(mapping.file, failure);
            unreadable(pid, mapping, path, failure, files)
        }
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

/// A file that cannot be opened may still show its headers in the memory of the process.
fn unreadable(
    pid: u32,
    mapping: &Mapping<'_>,
    path: String,
    failure: OpenFailure,
    files: &Files,
) -> RegionKind {
    let (dev_major, dev_minor, inode) = mapping.file;
    let identity = FileIdentity { dev_major, dev_minor, inode, ..FileIdentity::default() };
    let headers = mapping.head.and_then(|(start, end)| {
        elf::read(&|buffer, at| {
            let left = (end - start).saturating_sub(at).min(buffer.len() as u64) as usize;
            if left == 0 { Ok(0) } else { sys::memory::read(pid, start + at, &mut buffer[..left]) }
        })
        .ok()?
    });
    let file = MappedFile::unreadable(identity, path, failure, headers);
    RegionKind::File(files.remember_unreadable(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_target() {
        assert_eq!(&*as_target_sees(b"/jail/bin/x", Some(b"/jail")), b"/bin/x");
        assert_eq!(&*as_target_sees(b"/jailer/bin/x", Some(b"/jail")), b"/jailer/bin/x");
        assert_eq!(&*as_target_sees(b"/bin/x", None), b"/bin/x");
    }

    #[test]
    fn a_name_may_end_like_the_mark_of_deleted_files() {
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
    fn names_without_a_file_are_anonymous() {
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
            resolve(1, Path::new("/proc/self"), None, &mapping, &files)
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
        assert!(matches!(kind(b"[vsyscall]", 0), RegionKind::Vsyscall));
        let RegionKind::File(file) = kind(b"/no/such/file (deleted)", 7) else { panic!() };
        assert_eq!((file.path(), file.failure()), ("/no/such/file", Some(OpenFailure::Gone)));
        assert_eq!((file.identity().inode, file.kind()), (7, FileKind::NotElf));
    }

    #[test]
    fn headers_of_a_file_that_cannot_be_opened_are_read_in_memory() {
        let own = std::process::id();
        let proc_dir = PathBuf::from(format!("/proc/{own}"));
        let (mut mappings, complete) = executable_mappings(own, &proc_dir).unwrap();
        assert!(complete);
        let mapping = &mut mappings[0];
        let files = Files::with_budget(10);
        let RegionKind::File(opened) = resolve(own, &proc_dir, None, mapping, &files) else { panic!() };
        // No file has this inode, so none that is found will do.
        mapping.file.2 = u64::MAX;
        let RegionKind::File(seen) = resolve(own, &proc_dir, None, mapping, &files) else { panic!() };
        // Without the capability to open what is mapped, that is the reason that is told.
        assert_eq!(files.counts().replaced + files.counts().permission, 1);
        assert_eq!((seen.path(), seen.build_id()), (opened.path(), opened.build_id()));
        assert_eq!(seen.segments(), opened.segments());
        assert!(seen.bytes().is_err() && seen.open_content().is_err());
        let RegionKind::File(again) = resolve(own, &proc_dir, None, mapping, &files) else { panic!() };
        assert!(std::sync::Arc::ptr_eq(&seen, &again));
    }
}
