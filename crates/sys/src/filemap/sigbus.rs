//! The handler for `SIGBUS`, which maps zeros in place of the missing pages of truncated files.
//!
//! It replaces all that follows the missing page in its mapping, so a truncated file costs one more mapping, however many
//! of its pages are read. A process can have a limited number of mappings (`vm.max_map_count`): with a mapping for each
//! page, the owner of a file could use them up.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::{maps_file, ranges};

static PAGE: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static HAS_REPLACED: AtomicBool = AtomicBool::new(false);

/// Whether any page was replaced by zeros so far.
pub(super) fn has_replaced() -> bool {
    HAS_REPLACED.load(Ordering::Relaxed)
}

/// Installs the handler for `SIGBUS`, once per process. [`FileMap::new`](super::FileMap::new) calls it; callers whose
/// libraries map files call it first.
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
    let replaced = code == libc::BUS_ADRERR && replace(address);
    if replaced {
        HAS_REPLACED.store(true, Ordering::Relaxed);
    } else {
        // SAFETY: the pointer was leaked before this handler was installed and is never written again. A fault repeats
        // after the return and reaches the previous action; a signal sent by a process is raised again.
        unsafe {
            libc::sigaction(libc::SIGBUS, PREVIOUS.load(Ordering::Acquire), std::ptr::null_mut());
            if code <= 0 {
                libc::raise(signal);
            }
        }
    }
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Maps zeros in place of the missing page at an address, if it is part of a read-only file mapping.
fn replace(address: usize) -> bool {
    let page = PAGE.load(Ordering::Relaxed);
    let start = address & !(page - 1);
    let range = match ranges::containing(address) {
        Some(range) => range,
        None => match maps_file::containing(address) {
            Ok(Some(mapping)) if mapping.is_read_only && mapping.has_file => mapping.range,
            Ok(_) => return false,
            // All descriptors are in use.
            Err(maps_file::Unreadable) => start..start + page,
        },
    };
    // A replacement of the whole range needs no further mapping, so it works if no more than the limit are in use.
    zeros(start..range.end, libc::MAP_FIXED) || zeros(range.clone(), libc::MAP_FIXED) || exchange(range)
}

/// Maps zeros in place of a range. `fixed`: the flag that asks for this address.
fn zeros(range: Range<usize>, fixed: libc::c_int) -> bool {
    let start = range.start as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: the range is part of a read-only mapping of a file that has lost a page, or nothing. The readers of such a
    // mapping expect that its content changes, and it stays readable.
    let mapped = unsafe { libc::mmap(start, range.len(), libc::PROT_READ, flags, -1, 0) };
    mapped == start
}

/// Unmaps a range before it maps zeros, because one mapping more than the limit is in use: the kernel lets a process have
/// that one, and replaces nothing then. Another thread that reads the range at this moment ends the process, as this fault
/// would without it.
fn exchange(range: Range<usize>) -> bool {
    // SAFETY: the range is a read-only mapping of a file, which is mapped again at once.
    unsafe { libc::munmap(range.start as *mut libc::c_void, range.len()) };
    zeros(range, libc::MAP_FIXED_NOREPLACE)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::filemap::FileMap;

    /// What a child process does that may die of it, by name.
    const IN_CHILD: &str = "SYS_FILEMAP_TEST_CHILD";

    /// Runs a test once more, in a process of its own, where [`IN_CHILD`] has this value.
    fn in_child(test: &str, value: &str) -> std::process::ExitStatus {
        let test = format!("filemap::sigbus::tests::{test}");
        testkit::own_test(&test).env(IN_CHILD, value).output().unwrap().status
    }

    fn is_child(value: &str) -> bool {
        std::env::var(IN_CHILD).is_ok_and(|found| found == value)
    }

    /// A mapping that no [`FileMap`] made, of a file that is empty by now.
    fn foreign(access: libc::c_int, pages: usize) -> *const u8 {
        guard_against_truncation().unwrap();
        let file: File = tempfile::tempfile().unwrap();
        let len = pages * crate::usage::page_size();
        file.set_len(len as u64).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        file.set_len(0).unwrap();
        start.cast()
    }

    #[test]
    fn read_only_mappings_of_libraries_are_guarded_too() {
        const PAGES: usize = 100;
        let page = crate::usage::page_size();
        let start = foreign(libc::PROT_READ, PAGES);
        for number in (0..PAGES).rev().step_by(2) {
            // SAFETY: within the mapping.
            assert_eq!(unsafe { start.add(number * page).read_volatile() }, 0);
        }
        let first = maps_file::containing(start.addr()).unwrap().unwrap();
        let second = maps_file::containing(start.addr() + page).unwrap().unwrap();
        assert!(first.has_file && !second.has_file && second.range.end >= start.addr() + PAGES * page);
    }

    #[test]
    fn faults_elsewhere_keep_their_action() {
        if is_child("writable") {
            let start = foreign(libc::PROT_READ | libc::PROT_WRITE, 1);
            // SAFETY: mapped; the read raises SIGBUS.
            std::process::exit(unsafe { start.read_volatile() }.into());
        }
        let status = in_child("faults_elsewhere_keep_their_action", "writable");
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status:?}");
    }

    #[test]
    fn a_process_without_room_for_another_mapping_survives() {
        if is_child("full") {
            let page = crate::usage::page_size();
            let file = tempfile::tempfile().unwrap();
            file.set_len(64 * page as u64).unwrap();
            let map = FileMap::new(&file).unwrap();
            let mut access = libc::PROT_NONE;
            loop {
                // Neighbours of another access are not merged.
                access ^= libc::PROT_READ;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                // SAFETY: a new mapping at an address of the kernel's choice.
                let start = unsafe { libc::mmap(std::ptr::null_mut(), page, access, flags, -1, 0) };
                if start == libc::MAP_FAILED {
                    break;
                }
            }
            file.set_len(0).unwrap();
            std::process::exit(i32::from(map[32 * page]) + i32::from(map[0]));
        }
        let status = in_child("a_process_without_room_for_another_mapping_survives", "full");
        assert_eq!(status.code(), Some(0), "{status:?}");
    }
}
