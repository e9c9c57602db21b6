//! What the kernel counts of programs.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys;

/// What was counted of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runs {
    /// Time that it ran, where the kernel counts that.
    pub(crate) time_ns: u64,
    /// How often it did not run, because it had been interrupted on the same CPU (told since 5.12).
    pub(crate) skipped: u64,
}

/// Of one program. None if the kernel does not tell.
pub(crate) fn runs(program: BorrowedFd<'_>) -> Option<Runs> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes no more than `size` bytes into `info`, which asks for no lists, and tells how many.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut size)
    };
    (result == 0).then_some(Runs { time_ns: info.run_time_ns, skipped: info.recursion_misses })
}
