//! The intervals of a capture, summed up: their ledgers, and the functions of each profile. Memory is bounded by the number of functions, not by
//! the number of intervals.

use std::collections::{BTreeMap, HashMap};

use profile::Profile;
use recording::{Mode, Recording};

use crate::figures::add;
use crate::findings::{self, EndedBy, Finding};
use crate::hottest::{HotFunction, Hottest, Order, hottest_of, ranked};
use crate::ledger::{Ledger, include};

/// Functions of one profile that are summed up. Beyond that, a function that is new has no sum.
const MAX_FUNCTIONS: usize = 1 << 16;

/// The sums of intervals.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    ledgers: Vec<Ledger>,
    functions: BTreeMap<Mode, Functions>,
}

/// The functions of the profiles of one mode.
#[derive(Clone, Debug, Default)]
struct Functions {
    whole: u64,
    /// By name, file and source.
    sums: HashMap<HotFunction, (u64, u64)>,
}

impl Intervals {
    /// Adds an interval: its ledgers, and its profiles.
    pub fn add<'a>(&mut self, ledgers: &[Ledger], profiles: impl IntoIterator<Item = (Mode, &'a Profile)>) {
        for ledger in ledgers {
            match self.ledgers.iter_mut().find(|sum| sum.mode == ledger.mode) {
                Some(sum) => include(sum, ledger),
                None => self.ledgers.push(ledger.clone()),
            }
        }
        for (mode, profile) in profiles {
            self.functions.entry(mode).or_default().add(profile);
        }
    }

    /// One ledger for each profile: what the intervals contain and lack together.
    #[must_use]
    pub fn ledgers(&self) -> &[Ledger] {
        &self.ledgers
    }

    /// As [`hottest`](crate::hottest()), for all intervals. `None` if no interval has the profile.
    #[must_use]
    pub fn hottest(&self, mode: Mode, limit: usize) -> Option<Hottest> {
        let Functions { whole, sums } = self.functions.get(&mode)?;
        let sum = |(function, (own, total)): (&HotFunction, &(u64, u64))| {
            let (own, total) = (*own, *total);
            HotFunction { own, total, ..function.clone() }
        };
        Some(hottest_of(Hottest { whole: *whole, functions: sums.iter().map(sum).collect() }, limit))
    }

    /// Which profiles have no samples in any interval, and why. `last`: the last interval.
    #[must_use]
    pub fn without_samples(&self, last: &Recording, ended_by: EndedBy) -> Vec<Finding> {
        findings::without_samples(last, &self.ledgers, ended_by).collect()
    }
}

impl Functions {
    fn add(&mut self, profile: &Profile) {
        let ranked = ranked(profile, profile.default_value(), Order::Own);
        add(&mut self.whole, ranked.whole);
        for mut function in ranked.functions {
            let (own, total) = (std::mem::take(&mut function.own), std::mem::take(&mut function.total));
            if self.sums.len() >= MAX_FUNCTIONS && !self.sums.contains_key(&function) {
                continue;
            }
            let sums = self.sums.entry(function).or_default();
            add(&mut sums.0, own);
            add(&mut sums.1, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::{State, WalkEnd};

    use super::*;
    use crate::Report;
    use crate::test_recording::TestRecording;

    /// An interval whose samples are all in `leaf`.
    fn interval(leaf: &str, samples: u64) -> (Vec<Ledger>, Profile, Recording) {
        let mut capture = TestRecording::new();
        let frames = [capture.frame(leaf), capture.frame("main")];
        if samples > 0 {
            let stack = capture.stack(&[], &frames, WalkEnd::Root, State::Sampled);
            capture.add_samples(stack, samples);
        }
        capture.accounting.sampler.samples = samples;
        capture.accounting.processes = 3;
        let symbolized = capture.finish();
        let ledgers = Report::of(&symbolized, EndedBy::Request).ledgers;
        (ledgers, crate::profile(&symbolized, Mode::OnCpu, &[]), symbolized.recording)
    }

    #[test]
    fn ledgers_and_functions_of_all_intervals_add_up() {
        let mut intervals = Intervals::default();
        for (leaf, samples) in [("f", 6), ("g", 10), ("f", 5), ("f", 0)] {
            let (ledgers, profile, _) = interval(leaf, samples);
            intervals.add(&ledgers, [(Mode::OnCpu, &profile)]);
        }
        let ledger = &intervals.ledgers()[0];
        assert_eq!((ledger.mode, ledger.samples, ledger.processes), (Mode::OnCpu, 21, 3));
        assert_eq!((ledger.walks[0], ledger.rooted_pct()), (21, Some(100.0)));
        let hottest = intervals.hottest(Mode::OnCpu, 9).unwrap();
        let rows: Vec<_> = hottest.functions.iter().map(|of| (&*of.name, hottest.percent(of.own))).collect();
        assert_eq!(rows, [("f", 52.38), ("g", 47.61)]);
        assert!(intervals.hottest(Mode::Heap, 9).is_none());
    }

    #[test]
    fn an_empty_interval_among_others_is_no_finding() {
        let (mut intervals, mut silent) = (Intervals::default(), Intervals::default());
        for samples in [6, 0] {
            let (ledgers, profile, _) = interval("f", samples);
            intervals.add(&ledgers, [(Mode::OnCpu, &profile)]);
        }
        let (ledgers, profile, last) = interval("f", 0);
        silent.add(&ledgers, [(Mode::OnCpu, &profile)]);
        let of_cpu = |intervals: &Intervals| {
            let all = intervals.without_samples(&last, EndedBy::Request);
            all.iter().filter(|finding| finding.message.contains("CPU time")).count()
        };
        assert_eq!((of_cpu(&intervals), of_cpu(&silent)), (0, 1));
    }
}
