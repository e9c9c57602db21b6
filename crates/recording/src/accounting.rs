//! What was seen, lost and skipped in an interval, and what it cost. A ledger is computed from this and from the counts; see the
//! crate `report`.

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::event_accounting::EventAccounting;
use crate::heap_counts::HeapCounts;
use crate::not_run::NotRun;
use crate::state::State;
use crate::trampoline_counts::TrampolineCounts;
use crate::walk_end::WalkEnd;

/// What the agent used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the agent.
    pub agent_cpu_ns: u64,
    /// The time in which it was used.
    pub agent_elapsed_ns: u64,
    /// Largest resident set of the agent.
    pub agent_rss_peak_kib: u64,
    /// Time in BPF programs, where the kernel counts it.
    pub bpf_cpu_ns: Option<u64>,
    /// Kernel memory of BPF maps.
    pub bpf_memory_kib: u64,
}

impl Cost {
    /// What was used after `before`. Memory is that of the whole capture.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let bpf_before = before.bpf_cpu_ns.unwrap_or(0);
        Self {
            agent_cpu_ns: self.agent_cpu_ns.saturating_sub(before.agent_cpu_ns),
            agent_elapsed_ns: self.agent_elapsed_ns.saturating_sub(before.agent_elapsed_ns),
            bpf_cpu_ns: self.bpf_cpu_ns.map(|now| now.saturating_sub(bpf_before)),
            ..*self
        }
    }
}

/// What was seen, lost and skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// What the sampler's program counted.
    pub sampler: Counters,
    /// What the scheduler's programs counted.
    pub scheduler: Counters,
    /// Ends of the walks made in user space: of samples, and of off-CPU intervals; by number of [`WalkEnd`].
    pub deferred_walks: [[u64; WalkEnd::ALL.len()]; 2],
    /// Time in which the kernel throttled the sampling events, as far as it tells.
    pub throttled_ns: u64,
    /// Periods of the sampling events in which the kernel ran no program.
    pub not_run: NotRun,
    /// The same of events that were sampled beside the first one, in their order. In files they have a section of their own.
    #[serde(skip)]
    pub further: Vec<EventAccounting>,
    /// Counts that exceeded a limit of the recording, by number of [`State`].
    pub not_kept: [u64; State::ALL.len()],
    /// Counts whose stack never came, by number of [`State`].
    pub without_stack: [u64; State::ALL.len()],
    /// Of the counts that were kept, those whose waker exceeded a limit.
    pub wakers_not_kept: u64,
    /// Waits for locks that exceeded a limit of the recording, or whose stack never came.
    pub locks_not_kept: u64,
    /// Targets. Of the whole system: all processes that there were, kernel threads too.
    pub processes: u64,
    /// Processes of which mappings, or files with code, could not be read.
    pub unreadable_processes: u64,
    /// Names that processes had for too short a time to be shown.
    pub renames_skipped: u64,
    /// Records of process life that were lost, in the BPF ring.
    pub life_lost: u64,
    /// Records of mappings that were lost, in the side-band rings.
    pub side_band_lost: u64,
    /// Files whose unwind table could not be made or did not fit into the kernel's memory.
    pub tables_failed: u64,
    /// Unwind rules of files that have more different ones than a file may have. Files have this and the next five in their ledgers only.
    #[serde(skip)]
    pub rules_left_out: u64,
    /// How often an unwind table left the kernel's memory for others.
    #[serde(skip)]
    pub tables_evicted: u64,
    /// How often a process that was not sampled for long left the kernel's memory.
    #[serde(skip)]
    pub processes_evicted: u64,
    /// Distinct stacks whose Python frames could not be put into their places.
    #[serde(skip)]
    pub python_merge_failed: u64,
    /// Processes with an interpreter of Python that is not supported.
    #[serde(skip)]
    pub python_unsupported: u64,
    /// Processes whose trampolines of CPython were switched, if that was asked for.
    #[serde(skip)]
    pub trampolines: Option<TrampolineCounts>,
    /// Windows in which allocations were recorded; 0: all of them were. With windows, totals are not known, and not what is in use.
    pub heap_windows: u64,
    /// What was counted of allocations, if they were recorded.
    #[serde(skip)]
    pub heap: Option<HeapCounts>,
    /// Length of the interval.
    pub elapsed_ns: u64,
    /// The capture was cancelled before it began: there is little to tell.
    pub never_began: bool,
    /// What it cost.
    pub cost: Cost,
}

impl Accounting {
    /// Takes over the time in which the kernel throttled a sampled event, and the periods in which it ran no program for it.
    pub fn note_sampled(&mut self, number: usize, throttled_ns: u64, not_run: NotRun) {
        match number.checked_sub(1) {
            None => {
                self.throttled_ns += throttled_ns;
                self.not_run = not_run;
            }
            Some(further) => {
                if let Some(of_event) = self.further.get_mut(further) {
                    of_event.throttled_ns += throttled_ns;
                    of_event.not_run = not_run;
                }
            }
        }
    }

    /// What was counted after `before`, an earlier reading of the same capture. Targets, their shortfalls and peaks stay those of the
    /// whole capture.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut after = self.clone();
        after.sampler = self.sampler.since(&before.sampler);
        after.scheduler = self.scheduler.since(&before.scheduler);
        for (after, before) in
            after.deferred_walks.iter_mut().flatten().zip(before.deferred_walks.iter().flatten())
        {
            *after = after.saturating_sub(*before);
        }
        let of_before = before.not_kept.into_iter().chain(before.without_stack);
        for (after, before) in after.not_kept.iter_mut().chain(&mut after.without_stack).zip(of_before) {
            *after = after.saturating_sub(before);
        }
        for (after, before) in [
            (&mut after.throttled_ns, before.throttled_ns),
            (&mut after.not_run.periods, before.not_run.periods),
            (&mut after.wakers_not_kept, before.wakers_not_kept),
            (&mut after.locks_not_kept, before.locks_not_kept),
            (&mut after.python_merge_failed, before.python_merge_failed),
            (&mut after.tables_evicted, before.tables_evicted),
            (&mut after.processes_evicted, before.processes_evicted),
            (&mut after.renames_skipped, before.renames_skipped),
            (&mut after.life_lost, before.life_lost),
            (&mut after.side_band_lost, before.side_band_lost),
            (&mut after.elapsed_ns, before.elapsed_ns),
        ] {
            *after = after.saturating_sub(before);
        }
        for (after, before) in after.further.iter_mut().zip(&before.further) {
            *after = after.since(before);
        }
        after.cost = self.cost.since(&before.cost);
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_an_interval_are_the_difference_and_peaks_are_not() {
        let reading = |n: u64| Accounting {
            sampler: Counters { samples: 10 * n, walks: [n; WalkEnd::ALL.len()], ..Counters::default() },
            renames_skipped: n,
            processes: n,
            elapsed_ns: 100 * n,
            further: vec![EventAccounting { throttled_ns: 7 * n, ..EventAccounting::default() }],
            cost: Cost { agent_cpu_ns: n, agent_rss_peak_kib: n, bpf_cpu_ns: Some(7 * n), ..Cost::default() },
            ..Accounting::default()
        };
        let interval = reading(3).since(&reading(1));
        assert_eq!(
            (interval.sampler.samples, interval.sampler.walks[0], interval.renames_skipped),
            (20, 2, 2)
        );
        assert_eq!((interval.processes, interval.elapsed_ns, interval.further[0].throttled_ns), (3, 200, 14));
        assert_eq!((interval.cost.agent_cpu_ns, interval.cost.agent_rss_peak_kib), (2, 3));
        assert_eq!(interval.cost.bpf_cpu_ns, Some(14));
        assert_eq!(reading(1).since(&Accounting::default()), reading(1));
    }
}
