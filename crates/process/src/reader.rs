//! From `/proc/PID/maps` to an [`Image`].

use std::borrow::Cow;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::error::Error;
use crate::files::Files;
use crate::identity::DeviceAndInode;
use crate::image::Image;
use crate::open_request::OpenRequest;
use crate::region::{Region, RegionKind};
use crate::resolve::{Mapping, as_target_sees, file_at_hand, regions_of, shown, without_file};
use crate::text_copy::{MAX_COPIES, TextCopy};
use crate::{maps, task, trampolines};

/// Reads the executable memory of a process and opens the files behind it.
///
/// # Errors
/// [`Error::Gone`] if the process does not exist, ended, or another one took its PID meanwhile;
/// [`Error::Permission`] without the right to trace it.
pub fn read_image(pid: u32, files: &Files) -> Result<Image, Error> {
    let (mut image, requests) = read_mappings(pid, files, None)?;
    for request in requests {
        request.file().settle(request.open(files));
    }
    image.settle();
    Ok(image)
}

/// Reads the executable memory of a process and opens nothing: gives the requests for files that have to be opened.
/// `before`: the same program as it was read before. Its files are still the same.
///
/// # Errors
/// As for [`read_image`].
pub fn read_mappings(
    pid: u32,
    files: &Files,
    before: Option<&Image>,
) -> Result<(Image, Vec<OpenRequest>), Error> {
    let stat = task::stat(pid)?;
    let mut proc_dir = PathBuf::from(format!("/proc/{pid}"));
    let (mut mappings, mut complete) = executable_mappings(pid, &proc_dir)?;
    if mappings.is_empty() && !stat.is_kernel_thread {
        // A first thread that ended before the others shows no memory.
        for tid in task::threads(pid)?.into_iter().filter(|&tid| tid != pid) {
            proc_dir = PathBuf::from(format!("/proc/{tid}"));
            (mappings, complete) = executable_mappings(pid, &proc_dir)?;
            if !mappings.is_empty() {
                break;
            }
        }
    }
    let root = foreign_root(&proc_dir);
    let mut seen = before.map(Image::files_to_keep).unwrap_or_default();
    let (mut regions, mut requests) = (Vec::with_capacity(mappings.len()), Vec::new());
    let (mut room, mut copies) = (trampolines::MAX_OF_IMAGE, 0);
    for Found { mapping, text } in &mappings {
        let kind = without_file(mapping, files).unwrap_or_else(|| {
            let known = || {
                file_at_hand(mapping, files).unwrap_or_else(|| {
                    let request = OpenRequest::new(pid, &proc_dir, root.as_deref(), mapping);
                    let file = Arc::clone(request.file());
                    requests.push(request);
                    RegionKind::Opening(file)
                })
            };
            seen.entry(mapping.file).or_insert_with(known).clone()
        });
        let mut parts = regions_of(pid, mapping, kind, room, files);
        if let ([only], Some((file, offset))) = (&mut parts[..], text)
            && matches!(only.kind(), RegionKind::Anonymous)
            && copies < MAX_COPIES
        {
            let copy = TextCopy { pid, range: mapping.start..mapping.end, offset: *offset };
            let (kind, request) = copied_text(copy, file, &proc_dir, root.as_deref(), before);
            *only = Region::new(only.start, only.end, *offset, kind);
            requests.extend(request);
            copies += 1;
        }
        room = room.saturating_sub(parts.iter().filter(|part| part.kind().is_trampolines()).count());
        regions.extend(parts);
    }
    let exe = fs::read_link(proc_dir.join("exe")).ok().map(|path| {
        let path = maps::without_deleted(path.as_os_str().as_bytes());
        shown(&as_target_sees(path, root.as_deref()))
    });
    let comm = task::comm(pid)?;
    if task::start_time(pid)? != stat.start_time_ticks {
        return Err(Error::Gone { pid });
    }
    let mut image = Image::new(pid, stat.start_time_ticks, comm, exe, regions);
    image.complete = complete;
    Ok((image, requests))
}

/// The kind of memory that may be a copy of a file's text, and the request for the answer if it is not known.
fn copied_text(
    copy: TextCopy,
    file: &Mapping<'_>,
    proc_dir: &Path,
    root: Option<&[u8]>,
    before: Option<&Image>,
) -> (RegionKind, Option<OpenRequest>) {
    let known = before.and_then(|image| image.find(Avma(copy.range.start)));
    if let Some(known) = known.filter(|known| known.is_copy_of_text(copy.range.clone(), copy.offset)) {
        return (known.seen.clone(), None);
    }
    let request = OpenRequest::new(copy.pid, proc_dir, root, file).about_copy(copy);
    (RegionKind::Opening(Arc::clone(request.file())), Some(request))
}

/// An executable mapping.
struct Found {
    mapping: Mapping<'static>,
    /// Of memory without a file: the mapping of a file beside it, and the position in the file that would be at its start.
    text: Option<(Mapping<'static>, FileOffset)>,
}

/// A mapping of a file, of any permissions.
#[derive(Clone, Copy)]
struct Beside {
    range: (u64, u64),
    offset: u64,
    file: DeviceAndInode,
    /// The end of it and of the executable memory without a file behind it.
    end: u64,
}

impl Beside {
    fn of(entry: &maps::Entry<'_>) -> Self {
        let file = (entry.dev_major, entry.dev_minor, entry.inode);
        Self { range: (entry.start, entry.end), offset: entry.offset, file, end: entry.end }
    }

    fn mapping(&self, path: &[u8]) -> Mapping<'static> {
        let Self { range: (start, end), offset, file, .. } = *self;
        Mapping { start, end, offset, file, path: Cow::Owned(maps::unescape(path)), head: None }
    }
}

fn executable_mappings(pid: u32, proc_dir: &Path) -> Result<(Vec<Found>, bool), Error> {
    let path = proc_dir.join("maps");
    let mut found: Vec<Found> = Vec::new();
    let mut head = None;
    let mut last: Option<Beside> = None;
    // One for all: most mappings are not asked for.
    let mut last_path = Vec::new();
    // The first of the last mappings without a file that follow no file, and their end.
    let mut waiting: Option<(usize, u64)> = None;
    let read = File::open(&path).and_then(|file| {
        maps::for_each(file, |entry| {
            let file = (entry.dev_major, entry.dev_minor, entry.inode);
            if entry.offset == 0 && entry.inode != 0 {
                head = Some((file, (entry.start, entry.end)));
            }
            let is_memory = entry.inode == 0 && (entry.path.is_empty() || entry.path.starts_with(b"[anon"));
            if !entry.executable && entry.inode == 0 {
                (last, waiting) = (None, None);
                return;
            }
            let mut text = None;
            if is_memory {
                if let Some(last) = last.as_mut().filter(|last| last.end == entry.start) {
                    let offset = last.offset.saturating_add(entry.start - last.range.0);
                    text = Some((last.mapping(&last_path), FileOffset(offset)));
                    last.end = entry.end;
                } else {
                    let first = waiting.filter(|(_, end)| *end == entry.start).map(|(first, _)| first);
                    waiting = Some((first.unwrap_or(found.len()), entry.end));
                }
            } else {
                let behind = waiting.take().filter(|(_, end)| *end == entry.start).map(|(first, _)| first);
                let memory = behind.and_then(|first| found.get_mut(first..)).unwrap_or_default();
                for memory in memory.iter_mut().rev().take(MAX_COPIES) {
                    let offset = entry.offset.checked_sub(entry.start - memory.mapping.start);
                    memory.text =
                        offset.map(|offset| (Beside::of(&entry).mapping(entry.path), FileOffset(offset)));
                }
                last = (entry.inode != 0).then(|| Beside::of(&entry));
                last_path.clear();
                last_path.extend_from_slice(entry.path);
            }
            if entry.executable {
                let mapping = Mapping {
                    start: entry.start,
                    end: entry.end,
                    offset: if entry.inode == 0 { 0 } else { entry.offset },
                    file,
                    path: Cow::Owned(maps::unescape(entry.path)),
                    head: head.filter(|&(of, _)| of == file).map(|(_, range)| range),
                };
                found.push(Found { mapping, text });
            }
        })
    });
    let complete = read.map_err(|source| Error::of(pid, &path, source))?;
    Ok((found, complete))
}

/// The root of a process that has another root in the same mount namespace. `/proc/PID/maps` shows its paths from the
/// reader's root.
fn foreign_root(proc_dir: &Path) -> Option<Vec<u8>> {
    let root = fs::read_link(proc_dir.join("root")).ok()?;
    (root != Path::new("/")).then(|| root.into_os_string().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_file_that_cannot_be_opened_are_read_in_memory() {
        let own = std::process::id();
        let proc_dir = PathBuf::from(format!("/proc/{own}"));
        let (mut mappings, complete) = executable_mappings(own, &proc_dir).unwrap();
        assert!(complete);
        let mapping = &mut mappings[0].mapping;
        let files = Files::with_budget(10);
        let resolve = |mapping: &Mapping<'_>| OpenRequest::new(own, &proc_dir, None, mapping).open(&files);
        let RegionKind::File(opened) = resolve(mapping) else { panic!() };
        // No file has this inode, so any file that is found at the path is refused.
        mapping.file.2 = u64::MAX;
        let RegionKind::File(seen) = resolve(mapping) else { panic!() };
        // Without the capability for map_files, the missing permission is the reason.
        assert_eq!(files.counts().replaced + files.counts().permission, 1);
        assert_eq!((seen.path(), seen.build_id()), (opened.path(), opened.build_id()));
        assert_eq!(seen.segments(), opened.segments());
        assert!(seen.bytes().is_err() && seen.open_content().is_err());
        let RegionKind::File(again) = resolve(mapping) else { panic!() };
        assert!(std::sync::Arc::ptr_eq(&seen, &again));
    }
}
