//! From `/proc/PID/maps` to an [`Image`].

use std::borrow::Cow;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::files::Files;
use crate::image::Image;
use crate::open_request::OpenRequest;
use crate::region::RegionKind;
use crate::resolve::{Mapping, as_target_sees, file_at_hand, regions_of, shown, without_file};
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
    let mut room = trampolines::MAX_OF_IMAGE;
    for mapping in &mappings {
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
        let parts = regions_of(pid, mapping, kind, room, files);
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
        let mapping = &mut mappings[0];
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
