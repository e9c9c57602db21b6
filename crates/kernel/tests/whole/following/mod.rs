//! The programs as tests of threads load them; for tests of this crate from within and from outside.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use kernel::{Error, Kernel, KernelProcess, OffCpu, Settings, State};

/// CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into the struct, which lives.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The programs, attached, which know this process since `start_ns` and record its threads once these are entered. None, and the
/// test is skipped: no privileges.
pub fn following(min_block: Duration, start_ns: u64) -> Option<Kernel> {
    let mut kernel = following_nobody(min_block)?;
    let pid = std::process::id();
    let process = KernelProcess { pid, exec_id: start_ns, mappings: &[], waker_only: false };
    kernel.add_process(&process).unwrap();
    Some(kernel)
}

/// The attached programs, which know no process. Without privileges it skips the test and returns `None`.
pub fn following_nobody(min_block: Duration) -> Option<Kernel> {
    let off_cpu = OffCpu {
        states: vec![State::Blocked, State::IoWait, State::Preempted],
        min_block_ns: min_block.as_nanos() as u64,
        wall_clock: true,
        wakers: false,
    };
    let settings = Settings { off_cpu: Some(off_cpu), per_thread: true, seed: 7, ..Settings::default() };
    testkit::has_btf().map_err(testkit::skipped).ok()?;
    let mut kernel = match Kernel::load(&settings) {
        Ok(kernel) => kernel,
        Err(Error::Privilege { .. }) => {
            testkit::skipped("no privileges to load BPF programs");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    kernel.follow_processes().unwrap();
    kernel.follow_threads().unwrap();
    Some(kernel)
}
