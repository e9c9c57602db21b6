//! Read-only mappings of files that other users own.
//!
//! The owner of a mapped file can truncate it at any time. A read behind the new end then raises `SIGBUS`, which would
//! kill this process. Copying every file would instead read gigabytes of debug information for a few needed pages. The
//! first mapping therefore installs a handler for `SIGBUS` that maps a page of zeros in place of the missing page and
//! continues. Readers see zeros; every parser of untrusted files must handle them anyway.
//!
//! The handler serves all file mappings of the process, because the symbolizer makes its own. Any other `SIGBUS` goes
//! to the previous handler. Contents can also change while they are read: check each value where it is used, and check
//! [`is_whole`] before a result is stored.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

static PAGE: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static REPLACED_PAGES: AtomicU64 = AtomicU64::new(0);

/// The number of missing pages of truncated files that were replaced by zeros so far.
#[must_use]
pub fn replaced_pages() -> u64 {
    REPLACED_PAGES.load(Ordering::Relaxed)
}

/// Whether no page of these bytes of a [`FileMap`] was replaced by zeros so far, because the file was truncated or its
/// disk failed. Nothing is known of pages that were not read yet.
///
/// # Errors
/// Some page of the process was replaced, and its address could not be determined.
pub fn is_whole(mapped: &[u8]) -> io::Result<bool> {
    if replaced_pages() == 0 || mapped.is_empty() {
        return Ok(true);
    }
    let (start, end) = (mapped.as_ptr() as usize, mapped.as_ptr() as usize + mapped.len());
    let maps = std::fs::read("/proc/self/maps")?;
    let replaced = maps.split(|byte| *byte == b'\n').filter_map(anonymous_range);
    Ok(!replaced.into_iter().any(|range| range.start < end && start < range.end))
}

/// The addresses of a line of `/proc/self/maps` without a file.
fn anonymous_range(line: &[u8]) -> Option<std::ops::Range<usize>> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (_access, _offset, _device, inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
    (inode == "0").then_some(address(start)?..address(end)?)
}

/// Installs the handler for `SIGBUS`, once per process. [`FileMap::new`] calls it; callers whose libraries map files
/// call it first.
///
/// # Errors
/// The errno of `sigaction(2)`.
pub fn guard_against_truncation() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        PAGE.store(crate::usage::page_size(), Ordering::Relaxed);
        // SAFETY: all zero is a valid `sigaction`: default action, empty mask, no flags.
        let mut previous: Box<libc::sigaction> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: `previous` is writable and of the right type.
        unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut *previous) };
        PREVIOUS.store(Box::into_raw(previous), Ordering::Release);
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for and uses async-signal-safe calls only.
        match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers, and errno is this thread's own.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, *libc::__errno_location()) };
    if code == libc::BUS_ADRERR {
        let page = PAGE.load(Ordering::Relaxed);
        let start = (address & !(page - 1)) as *mut libc::c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: with BUS_ADRERR this page belongs to a mapping and has no memory, so no readable page is replaced.
        let mapped = unsafe { libc::mmap(start, page, libc::PROT_READ, flags, -1, 0) };
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = errno };
        if mapped == start {
            REPLACED_PAGES.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    // SAFETY: the pointer was leaked before this handler was installed and is never written again. A fault repeats after
    // the return and reaches the previous action; a signal sent by a process is raised again.
    unsafe {
        libc::sigaction(libc::SIGBUS, PREVIOUS.load(Ordering::Acquire), std::ptr::null_mut());
        if code <= 0 {
            libc::raise(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// The content of a file, with the length that it had when it was mapped. Derefs to bytes.
#[derive(Debug)]
pub struct FileMap {
    base: NonNull<u8>,
    len: usize,
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
            return Ok(Self { base: NonNull::dangling(), len });
        }
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is touched.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Self { base, len })
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
        assert_eq!(*FileMap::new(&file).unwrap(), []);
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
        let before = replaced_pages();
        let map = std::thread::spawn(move || {
            assert_eq!(map[page - 1], 7);
            assert_eq!(map[page], 0);
            assert_eq!(map[3 * page - 1], 0);
            map
        });
        let map = map.join().unwrap();
        // Other tests may replace pages meanwhile.
        assert!(replaced_pages() >= before + 2);
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

    #[test]
    fn lines_of_maps_are_parsed() {
        let range = |line: &str| anonymous_range(line.as_bytes());
        assert_eq!(range("7f00-7f10 r--p 00000000 00:00 0 "), Some(0x7f00..0x7f10));
        assert_eq!(range("7f00-7f10 r--p 00000000 00:00 0                  [heap]"), Some(0x7f00..0x7f10));
        assert_eq!(range("7f00-7f10 r--p 00001000 fe:00 17 /tmp/0 00:00 0"), None);
        for line in ["", "7f00", "7f00 r--p 0 0 0", "7f00-x r--p 0 0 0", "7f00-7f10 r--p 0 0"] {
            assert_eq!(range(line), None, "{line}");
        }
    }

    #[test]
    fn only_regular_files_are_mapped() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(FileMap::new(&null).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
