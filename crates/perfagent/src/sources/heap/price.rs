//! What recording allocations costs the targets, and how much it may.

use std::collections::HashMap;
use std::time::Duration;

/// What the probes of a call cost: the entry with its walk and the return of one that allocates, or the entry of one that frees, on average. Measured; see
/// docs/benchmarks.md.
const OF_A_CALL: Duration = Duration::from_nanos(2_500);
/// The same where returns are probed at the instructions that return, which the kernel never emulates.
const OF_A_CALL_BY_SITES: Duration = Duration::from_nanos(7_000);
/// The same where the kernel does not emulate the instruction at an entry.
const OF_A_DEAR_CALL: Duration = Duration::from_micros(20);

/// It may cost this part of what the targets use without it,
const SHARE: f64 = 0.05;
/// and this at once, as while a program starts.
const AT_ONCE_NS: f64 = 50e6;

/// What a call costs. `entries`: the kernel does not emulate an instruction at an entry; `returns`: functions are probed at the
/// instructions that return, which it never emulates.
pub(super) fn of_a_call(entries: bool, returns: bool) -> Duration {
    match (entries, returns) {
        (true, _) => OF_A_DEAR_CALL,
        (false, true) => OF_A_CALL_BY_SITES,
        (false, false) => OF_A_CALL,
    }
}

/// What the targets have done in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sources) struct Work {
    /// Calls of allocators.
    pub(in crate::sources) calls: u64,
    /// CPU time of all their threads, with what the probes cost.
    pub(in crate::sources) cpu_ns: u64,
}

impl Work {
    /// What was done since `before`.
    pub(in crate::sources) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
        }
    }
}

/// What it has cost so far, and what the targets have used without that.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sources) struct Bill {
    cost_ns: f64,
    own_ns: f64,
}

impl Bill {
    /// Adds work in which each call has cost so much.
    pub(in crate::sources) fn add(&mut self, work: Work, of_a_call: Duration) {
        let cost = work.calls as f64 * of_a_call.as_nanos() as f64;
        self.cost_ns += cost;
        self.own_ns += (work.cpu_ns as f64 - cost).max(0.0);
    }

    /// Whether it costs more than it may.
    pub(in crate::sources) fn is_too_dear(&self) -> bool {
        self.cost_ns > AT_ONCE_NS + SHARE * self.own_ns
    }

    /// The cost so far.
    pub(in crate::sources) fn cost_ms(&self) -> u64 {
        (self.cost_ns / 1e6) as u64
    }

    /// The cost in percent of what the targets have used without it.
    pub(in crate::sources) fn percent(&self) -> f64 {
        if self.own_ns > 0.0 { 100.0 * self.cost_ns / self.own_ns } else { 0.0 }
    }
}

/// CPU time that processes have used since they were first asked about, each time by all that live then. What one has used between the last look and its end is missing.
#[derive(Debug, Default)]
pub(in crate::sources) struct CpuTime {
    last_ticks: HashMap<u32, u64>,
    total_ticks: u64,
}

impl CpuTime {
    /// All so far, in ns.
    pub(in crate::sources) fn look(&mut self, living: &[u32]) -> u64 {
        let now: HashMap<u32, u64> =
            living.iter().filter_map(|pid| Some((*pid, process::task::stat(*pid).ok()?.cpu_ticks))).collect();
        for (pid, ticks) in &now {
            // A process that was not there at the last look has used all of it since.
            let before = self.last_ticks.get(pid).copied().unwrap_or(0);
            self.total_ticks += ticks.saturating_sub(before);
        }
        self.last_ticks = now;
        self.total_ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(calls: u64, cpu_ms: u64) -> Bill {
        let mut bill = Bill::default();
        bill.add(Work { calls, cpu_ns: cpu_ms * 1_000_000 }, Duration::from_micros(2));
        bill
    }

    #[test]
    fn the_price_is_a_part_of_what_the_targets_use_without_it() {
        assert!((bill(10_000, 1000).percent() - 2.04).abs() < 0.01);
        assert!((bill(250_000, 1000).percent() - 100.0).abs() < 0.01, "half of the time");
        assert!(bill(10_000_000, 1000).is_too_dear(), "more than all of the time");
        assert!(bill(5, 0).percent() < 1e-9);
        let work = |calls, cpu_ns| Work { calls, cpu_ns };
        assert_eq!(work(7, 9).since(work(2, 10)), work(5, 0));
    }

    #[test]
    fn a_start_may_be_dear_and_what_goes_on_may_not() {
        assert!(!bill(24_000, 60).is_too_dear(), "48 ms of a start");
        assert!(bill(30_000, 70).is_too_dear());
        assert!(!bill(20_000, 1000).is_too_dear());
        assert!(!bill(200_000, 10_000).is_too_dear(), "4 %");
        assert!(bill(400_000, 10_000).is_too_dear(), "9 %");
    }

    #[test]
    fn time_on_cpus_is_that_of_all_who_live() {
        let mut times = CpuTime::default();
        let own = [std::process::id()];
        let before = times.look(&own);
        testkit::until("the time of threads that have ended counts", || {
            std::thread::spawn(|| testkit::burn(Duration::from_millis(20))).join().unwrap();
            times.look(&own) >= before + 50_000_000
        });
        let now = times.look(&[]);
        assert_eq!(times.look(&[u32::MAX]), now, "what has ended stays");
    }
}
