//! Reads and writes the memory of other processes without stopping them, and limits the memory that this process's allocator
//! keeps.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies the memory of `pid` at `address` into `buffer` and returns the number of bytes read. Needs the right to trace
/// the process (`CAP_SYS_PTRACE` for other users' processes); the own process is always allowed.
///
/// # Errors
/// The errno of `process_vm_readv(2)`: `EFAULT` if nothing is mapped at `address`.
pub fn read(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let address = usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes into `buffer` at most, and checks the remote range itself.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes bytes into the memory of `pid` at `address`, all of them or an error. Needs the right to trace the process. Memory that the process
/// itself may not write stays as it is.
///
/// # Errors
/// The errno of `process_vm_writev(2)`; `EFAULT` also if only a part could be written. The own process is refused.
pub fn write(pid: u32, address: u64, bytes: &[u8]) -> io::Result<()> {
    if pid == std::process::id() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let address = usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the kernel reads from `bytes` only, and writes into another process, whose range it checks itself.
    let written = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(written) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Whether two processes run in the same memory, as a process and the child that it has made by `vfork` do. False if the kernel does not tell.
#[must_use]
pub fn is_shared(one: u32, other: u32) -> bool {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

/// Blocks of at least this size get a mapping of their own, which goes back to the kernel when they are freed.
const OWN_MAPPING_BYTES: libc::c_int = 256 << 10;
/// Heaps of the allocator. Each heap keeps the memory that its threads once needed.
const MAX_HEAPS: libc::c_int = 2;

/// Whether [`keep_heap_small`] was called. Only the owner of a process decides how its allocator keeps memory.
static HEAP_IS_SMALL: AtomicBool = AtomicBool::new(false);

/// Makes the allocator return freed memory to the kernel instead of keeping it, for the rest of this process. Large
/// blocks then cost system calls. Does nothing with C libraries other than glibc.
pub fn keep_heap_small() {
    HEAP_IS_SMALL.store(true, Ordering::Relaxed);
    #[cfg(target_env = "gnu")]
    // SAFETY: takes numbers only, and takes the lock of the allocator. Refused values change nothing.
    unsafe {
        // Without a fixed threshold, glibc raises it up to 32 MiB each time a larger block is freed.
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, MAX_HEAPS);
    }
}

/// Returns whole free pages between used blocks to the kernel. The allocator never does so by itself, because
/// long-lived blocks lie between short-lived ones. Does nothing unless [`keep_heap_small`] was called.
pub fn give_back_free_pages() {
    if !HEAP_IS_SMALL.load(Ordering::Relaxed) {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number only, and the locks of the allocator. Blocks in use stay as they are.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn freed_memory_goes_back_to_the_kernel() {
        let resident = || -> usize {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        keep_heap_small();
        drop(std::hint::black_box(vec![1u8; 16 << 20]));
        let before = resident();
        // Blocks of 1 MiB. The last one is kept: on a heap it would hold the others.
        let mut blocks: Vec<_> = (0..32).map(|_| vec![1u8; 1 << 20]).collect();
        let last = std::hint::black_box(blocks.pop());
        drop(std::hint::black_box(blocks));
        let after = resident();
        assert!(after < before + 8192, "{before} -> {after} KiB");
        drop(last);
        // Small blocks. Each thousandth is kept and holds the others.
        let mut blocks: Vec<_> = (0..1 << 18).map(|_| vec![1u8; 100]).collect();
        let full = resident();
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 1000 == 0
        });
        give_back_free_pages();
        let after = resident();
        assert!(after + 16384 < full, "{full} -> {after} KiB");
        drop(std::hint::black_box(blocks));
    }

    #[test]
    fn own_memory_can_be_read() {
        let text = *b"a text in memory";
        let mut copy = [0; 16];
        assert_eq!(read(std::process::id(), text.as_ptr() as u64, &mut copy).unwrap(), 16);
        assert_eq!(copy, text);
        assert_eq!(read(std::process::id(), 8, &mut copy).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
