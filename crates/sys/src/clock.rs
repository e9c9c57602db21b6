//! `CLOCK_MONOTONIC` as the kernel has it: the clock of perf records and of `bpf_ktime_get_ns`.
//!
//! A time namespace shifts the monotonic and the boot clock of its processes, and nothing inside the kernel. `/proc/self/timens_offsets` is no
//! source for that shift: it describes the children of a process. So the shift is measured once, by the time of a record that the calling
//! thread causes. A process with several threads cannot change its time namespace (`setns(2)`).

use std::io;
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

use crate::perf::{self, Attr};
use crate::ring::Ring;

/// `PROC_TIME_INIT_INO`: the inode of the initial time namespace.
const INITIAL_NAMESPACE: u64 = 0xefff_fffa;
/// Records to measure by. The one with the shortest time around it counts.
const ATTEMPTS: u32 = 16;

/// The time of the kernel's records, in ns. Without a measured shift it is the clock of this process.
#[must_use]
pub fn kernel_ns() -> u64 {
    kernel_time(ClockId::Monotonic)
}

/// The time of a clock as the kernel has it. A time namespace shifts `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW` equally; other clocks are read as
/// they are.
#[must_use]
pub fn kernel_time(clock: ClockId) -> u64 {
    let shift = match clock {
        ClockId::Monotonic | ClockId::MonotonicRaw => time_namespace().ok().flatten().unwrap_or(0),
        _ => 0,
    };
    own_time(clock).saturating_add_signed(shift)
}

/// `None` in the initial time namespace, else how many ns the kernel's clock is ahead of the monotonic clock of this process.
///
/// # Errors
/// In another time namespace: the errno of the perf event that measures the shift.
pub fn time_namespace() -> io::Result<Option<i64>> {
    static SHIFT: OnceLock<Result<Option<i64>, i32>> = OnceLock::new();
    let measured = SHIFT.get_or_init(|| match is_initial() {
        true => Ok(None),
        false => measure().map(Some).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)),
    });
    measured.map_err(io::Error::from_raw_os_error)
}

/// Kernels without time namespaces have no such file.
fn is_initial() -> bool {
    match rustix::fs::stat("/proc/self/ns/time") {
        Ok(stat) => stat.st_ino == INITIAL_NAMESPACE,
        Err(_) => rustix::fs::stat("/proc/self/ns").is_ok(),
    }
}

/// Measures how far the kernel's clock is ahead.
fn measure() -> io::Result<i64> {
    let attr = Attr {
        kind: perf::TYPE_SOFTWARE,
        config: perf::SW_DUMMY,
        sample_type: perf::SAMPLE_TIME,
        flags: perf::COMM | perf::SAMPLE_ID_ALL | perf::USE_CLOCKID | perf::EXCLUDE_KERNEL | perf::EXCLUDE_HV,
        clockid: ClockId::Monotonic as i32,
        ..Attr::default()
    };
    let event = perf::open(&attr, 0, -1, None)?;
    let mut ring = Ring::map(event.as_fd(), 1)?;
    // A thread that gets the name that it has causes a record too.
    let name = rustix::thread::name()?;
    let mut best = None;
    for _ in 0..ATTEMPTS {
        let before = own_time(ClockId::Monotonic);
        rustix::thread::set_name(&name)?;
        let around = own_time(ClockId::Monotonic).saturating_sub(before);
        let mut recorded = None;
        ring.drain(|record| recorded = time_of(record));
        let Some(recorded) = recorded else { continue };
        if best.is_none_or(|(shortest, _)| around < shortest) {
            best = Some((around, recorded.wrapping_sub(before + around / 2).cast_signed()));
        }
    }
    best.map(|(_, shift)| shift).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
}

/// The time at the end of a record of a name.
fn time_of(record: &[u8]) -> Option<u64> {
    let (kind, _) = record.split_first_chunk::<4>()?;
    let (_, time) = record.split_last_chunk::<8>()?;
    (u32::from_ne_bytes(*kind) == perf::RECORD_COMM).then(|| u64::from_ne_bytes(*time))
}

fn own_time(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a thread of a test waits for its CPU in each of the attempts.
    const TOLERANCE_NS: u64 = 50_000_000;

    #[test]
    fn a_measurement_agrees_with_the_namespace() {
        let measured = match measure() {
            Ok(measured) => measured,
            Err(error) => testkit::skip!("no perf event of this thread: {error}"),
        };
        let known = time_namespace().unwrap().unwrap_or(0);
        assert!((measured - known).unsigned_abs() < TOLERANCE_NS, "{measured} {known}");
    }

    #[test]
    fn the_shift_of_a_time_namespace_is_measured() {
        let Some(mut command) = testkit::unshare(&["--time", "--monotonic", "3000000"]) else { return };
        if let Err(error) = measure() {
            testkit::skip!("no perf event of this thread: {error}");
        }
        let inside = testkit::own_test("clock::tests::inside_of_a_time_namespace");
        let output = command.arg(inside.get_program()).args(inside.get_args()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by the_shift_of_a_time_namespace_is_measured"]
    fn inside_of_a_time_namespace() {
        let shift = time_namespace().unwrap().expect("a time namespace");
        assert!((shift + 3_000_000_000_000_000).unsigned_abs() < TOLERANCE_NS, "{shift}");
        let own = own_time(ClockId::Monotonic);
        assert!(own.saturating_sub(kernel_ns()).abs_diff(3_000_000_000_000_000) < TOLERANCE_NS);
        assert!(kernel_time(ClockId::Realtime).abs_diff(own_time(ClockId::Realtime)) < TOLERANCE_NS);
    }
}
