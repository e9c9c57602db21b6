//! The sums of a wall-clock profile.

use recording::OffCpuState;

use super::entries::Entries;
use crate::figures::{add, sum};
use crate::wall_time::{OnCpuTime, WallState, WallTime};

/// The sums of a wall-clock profile, all in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WallClock {
    /// Time on CPUs.
    pub on_cpu_ns: u64,
    /// Time in which threads could have run, but had no CPU.
    pub run_queue_ns: u64,
    /// Time asleep.
    pub blocked_ns: u64,
    /// Time in uninterruptible sleep that adds to the load.
    pub io_wait_ns: u64,
    /// The expected sum: the time that each thread existed during the capture.
    pub threads_ns: u64,
}

impl WallClock {
    /// All states together.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        sum([self.on_cpu_ns, self.run_queue_ns, self.blocked_ns, self.io_wait_ns])
    }

    /// Adds the sums of another interval.
    pub(super) fn include(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.on_cpu_ns, other.on_cpu_ns),
            (&mut self.run_queue_ns, other.run_queue_ns),
            (&mut self.blocked_ns, other.blocked_ns),
            (&mut self.io_wait_ns, other.io_wait_ns),
            (&mut self.threads_ns, other.threads_ns),
        ] {
            add(sum, more);
        }
    }

    /// Adds the time of a count.
    pub(super) fn add(&mut self, time: WallTime) {
        let in_state = match time.state {
            WallState::OnCpu => &mut self.on_cpu_ns,
            WallState::Off(OffCpuState::IoWait) => &mut self.io_wait_ns,
            WallState::Off(_) => &mut self.blocked_ns,
        };
        add(in_state, time.time_ns);
        add(&mut self.run_queue_ns, time.runnable_ns);
    }

    /// Adds the time on CPUs that no sample tells of.
    pub(super) fn add_between_samples(&mut self, times: &OnCpuTime) {
        add(&mut self.on_cpu_ns, sum(times.between_samples().map(|(_, ns)| ns)));
    }

    pub(super) fn put_into(&self, entries: &mut Entries) {
        for (key, ns) in [
            ("wall.on_cpu_ns", self.on_cpu_ns),
            ("wall.runqueue_ns", self.run_queue_ns),
            ("wall.blocked_ns", self.blocked_ns),
            ("wall.iowait_ns", self.io_wait_ns),
            ("wall.sum_ns", self.sum_ns()),
            ("wall.threads_ns", self.threads_ns),
        ] {
            entries.put(key, ns);
        }
        if self.threads_ns > 0 {
            let identity = 100.0 * self.sum_ns() as f64 / self.threads_ns as f64;
            entries.put("wall.identity_pct", format!("{identity:.2}"));
        }
    }
}
