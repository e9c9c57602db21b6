//! The wall-clock time of a moment on the kernel's clock.

use std::time::{Duration, SystemTime};

use rustix::time::ClockId;
use sys::clock::kernel_time;

/// Readings of two clocks no farther apart than this are of one moment.
const CLOSE_NS: u64 = 50_000;

/// What the wall clock showed when it was `time_ns` by the kernel's clock.
pub(crate) fn wall_time(time_ns: u64) -> SystemTime {
    wall_time_of(ClockId::Monotonic, time_ns)
}

/// When so many clock ticks had passed since boot, as `/proc/PID/stat` counts them; rounded down to a tick.
pub(crate) fn wall_time_of_ticks(ticks: u64) -> SystemTime {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(rustix::param::clock_ticks_per_second().max(1));
    wall_time_of(ClockId::Boottime, u64::try_from(ns).unwrap_or(u64::MAX))
}

fn wall_time_of(clock: ClockId, time_ns: u64) -> SystemTime {
    // Both clocks at one moment; this thread may lose its CPU between two readings.
    let mut best = (u64::MAX, 0, SystemTime::UNIX_EPOCH);
    for _ in 0..10 {
        let (before, wall, after) = (kernel_time(clock), SystemTime::now(), kernel_time(clock));
        if after - before < best.0 {
            best = (after - before, before, wall);
        }
        if best.0 < CLOSE_NS {
            break;
        }
    }
    let (_, now, wall) = best;
    wall.checked_sub(Duration::from_nanos(now.saturating_sub(time_ns))).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_process_lies_before_what_it_writes() {
        let before = SystemTime::now();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let started = wall_time_of_ticks(process::task::start_time(child.id()).unwrap());
        let after = SystemTime::now();
        drop(child.stdin.take());
        child.wait().unwrap();
        // A tick is a hundredth of a second.
        assert!(before <= started + Duration::from_millis(11) && started <= after, "{started:?}");
        let moment = wall_time(sys::clock::kernel_ns());
        assert!(after <= moment + Duration::from_micros(50) && moment <= SystemTime::now());
    }
}
