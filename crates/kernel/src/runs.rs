//! The kernel's counts of program runs.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys;

/// The kernel's counts for one program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runs {
    /// Run time, if the kernel counts it.
    pub(crate) time_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that CPU (reported since Linux 5.12).
    pub(crate) skipped: u64,
}

/// Reads the counts of one program; none if the kernel refuses.
pub(crate) fn runs(program: BorrowedFd<'_>) -> Option<Runs> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes into `info`, and the number written into `size`. The zeroed `info`
    // asks for no lists, so the kernel follows no pointer in it.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut size)
    };
    (result == 0).then_some(Runs { time_ns: info.run_time_ns, skipped: info.recursion_misses })
}
