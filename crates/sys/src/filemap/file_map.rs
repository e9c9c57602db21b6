//! The mapping of one file, and whether it is still whole.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use super::maps_file;
use super::ranges::{self, Entry};
use super::sigbus::{guard_against_truncation, has_replaced};

/// Whether no page of these bytes of a [`FileMap`] was replaced by zeros so far, because the file was truncated or its
/// disk failed. Nothing is known of pages that were not read yet.
///
/// # Errors
/// Some page of the process was replaced, and its address could not be determined.
pub fn is_whole(mapped: &[u8]) -> io::Result<bool> {
    if !has_replaced() || mapped.is_empty() {
        return Ok(true);
    }
    let (start, end) = (mapped.as_ptr() as usize, mapped.as_ptr() as usize + mapped.len());
    let maps = std::fs::read("/proc/self/maps")?;
    let mut replaced =
        maps.split(|byte| *byte == b'\n').filter_map(maps_file::parse).filter(|mapping| !mapping.has_file);
    Ok(!replaced.any(|mapping| mapping.range.start < end && start < mapping.range.end))
}

/// The content of a file, with the length that it had when it was mapped. Derefs to bytes.
#[derive(Debug)]
pub struct FileMap {
    base: NonNull<u8>,
    len: usize,
    /// Tells the handler for `SIGBUS` of the mapping; none if the file is empty.
    entry: Option<Entry>,
}

// SAFETY: the mapping is read-only and belongs to this value alone.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the whole file.
    ///
    /// # Errors
    /// The errno of `fstat(2)`, `sigaction(2)` or `mmap(2)`; `ENODEV` if the file is not a regular file.
    pub fn new(file: impl AsFd) -> io::Result<Self> {
        guard_against_truncation()?;
        let stat = rustix::fs::fstat(&file)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let len = usize::try_from(stat.st_size).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        if len == 0 {
            return Ok(Self { base: NonNull::dangling(), len, entry: None });
        }
        let fd = file.as_fd().as_raw_fd();
        let map = |flags| {
            // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is touched.
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, fd, 0) }
        };
        // The kernel inserts the breakpoints of uprobes into private mappings, also into those that nobody executes. Some file systems have
        // no shared mappings.
        let mut base = map(libc::MAP_SHARED);
        if base == libc::MAP_FAILED {
            base = map(libc::MAP_PRIVATE);
        }
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: NonNull<u8> =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        let start = base.as_ptr().addr();
        let end = start + len.next_multiple_of(crate::usage::page_size());
        Ok(Self { base, len, entry: Some(ranges::insert(&(start..end))) })
    }

    /// Releases the memory of the pages read so far. Later reads map them again.
    pub fn release(&self) {
        if self.len != 0 {
            // SAFETY: exactly the range that `new` made. It is read-only: each page comes back with the content of the
            // file, or with the zeros that the handler for SIGBUS mapped. A failure changes nothing.
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
        }
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped for as long as `self`, and readable even if the file shrinks. Others may
        // write the file; see the module's text.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // Before the addresses can be used for something else.
        self.entry = None;
        if self.len != 0 {
            // SAFETY: exactly the range that `new` made; no reference into it outlives `self`.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_mapping_has_the_content_of_its_file() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(FileMap::new(&file).unwrap().is_empty());
        file.write_all(b"hello").unwrap();
        assert_eq!(*FileMap::new(&file).unwrap(), *b"hello");
    }

    #[test]
    fn released_pages_are_read_again() {
        let mut file = tempfile::tempfile().unwrap();
        let page = crate::usage::page_size();
        file.write_all(&vec![7; 3 * page]).unwrap();
        let map = FileMap::new(&file).unwrap();
        assert_eq!(map[2 * page], 7);
        map.release();
        assert!(map.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_truncated_file_reads_as_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        let page = crate::usage::page_size();
        file.write_all(&vec![7; 3 * page]).unwrap();
        let map = FileMap::new(&file).unwrap();
        file.set_len(page as u64).unwrap();
        let map = std::thread::spawn(move || {
            assert_eq!(map[page - 1], 7);
            assert_eq!(map[page], 0);
            assert_eq!(map[3 * page - 1], 0);
            map
        });
        let map = map.join().unwrap();
        assert!(!is_whole(&map).unwrap());
        assert!(is_whole(&map[..page]).unwrap() && !is_whole(&map[page..page + 1]).unwrap());
        map.release();
        assert_eq!((map[0], map[page], map[3 * page - 1]), (7, 0, 0));
        drop(map);
    }

    #[test]
    fn a_truncated_file_does_not_affect_mappings_that_were_read_before() {
        let mut file = tempfile::tempfile().unwrap();
        let page = crate::usage::page_size();
        file.write_all(&vec![7; 2 * page]).unwrap();
        let (whole, cut) = (FileMap::new(&file).unwrap(), FileMap::new(&file).unwrap());
        assert_eq!((whole[0], whole[page]), (7, 7));
        file.set_len(page as u64).unwrap();
        assert!(is_whole(&cut).unwrap(), "nothing was read yet");
        assert_eq!((cut[0], cut[page]), (7, 0));
        assert!(is_whole(&whole).unwrap() && !is_whole(&cut).unwrap());
    }

    /// How many mappings there are in the range of a file mapping.
    fn mappings_of(map: &FileMap) -> usize {
        let range = map.as_ptr_range();
        let maps = std::fs::read("/proc/self/maps").unwrap();
        let mappings = maps.split(|byte| *byte == b'\n').filter_map(maps_file::parse);
        mappings.filter(|m| m.range.start < range.end.addr() && range.start.addr() < m.range.end).count()
    }

    #[test]
    fn a_truncated_file_costs_one_more_mapping_however_it_is_read() {
        const PAGES: usize = 1000;
        let page = crate::usage::page_size();
        let far_apart = || (1..PAGES).step_by(2);
        let orders: [Vec<usize>; 2] = [far_apart().collect(), far_apart().rev().collect()];
        for order in orders {
            let file = tempfile::tempfile().unwrap();
            file.set_len((PAGES * page) as u64).unwrap();
            let map = FileMap::new(&file).unwrap();
            file.set_len(page as u64).unwrap();
            assert!(order.iter().all(|number| map[number * page] == 0));
            // A neighbour may have been merged with the zeros.
            assert!(mappings_of(&map) <= 2, "{} mappings", mappings_of(&map));
            drop(map);
        }
    }

    #[test]
    fn only_regular_files_are_mapped() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(FileMap::new(&null).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
