//! What is told about processes: warnings about those that were refused, and where the others keep their names.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use recording::TrampolineCounts;

use super::refused::{NOT_PYTHON, Refused};
use super::remedy::remedy;
use crate::{Warning, WarningKind};

/// Processes of one kind of refusal that a warning names. All are counted.
const TOLD_OF_KIND: u32 = 4;
/// Perf maps that are told.
const MAX_MAPS: usize = 64;

/// What is told about processes.
#[derive(Default)]
pub(super) struct Outcome {
    /// Refusals that only this room knows, by kind.
    skipped: HashMap<&'static str, u64>,
    told: HashMap<&'static str, u32>,
    warnings: Vec<Warning>,
    pub(super) maps: Vec<(u32, PathBuf)>,
    /// Processes that are on, or were.
    pub(super) on: HashSet<u32>,
}

impl Outcome {
    /// A process was refused by the engine, which counts it. What runs no Python is not told of: with several processes most do not.
    pub(super) fn refused(&mut self, Refused { pid, token, cause }: &Refused) {
        let told = self.told.entry(token).or_default();
        if *token == NOT_PYTHON || *told >= TOLD_OF_KIND {
            return;
        }
        *told += 1;
        let message = format!("python: pid {pid}: {token}: {cause}");
        self.warnings.push(Warning::new(WarningKind::Python, message, remedy(token)));
    }

    /// Processes were not given to the engine.
    pub(super) fn skip(&mut self, token: &'static str, count: u64) {
        if count > 0 {
            *self.skipped.entry(token).or_default() += count;
        }
    }

    /// A process writes a perf map.
    pub(super) fn is_on(&mut self, pid: u32) {
        self.on.insert(pid);
        if self.maps.len() < MAX_MAPS && self.maps.iter().all(|(known, _)| *known != pid) {
            let inner = process::task::ns_pids(pid).ok().and_then(|pids| pids.last().copied());
            self.maps.push((pid, format!("/tmp/perf-{}.map", inner.unwrap_or(pid)).into()));
        }
    }

    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// The counts of the engine and those of this room.
    pub(super) fn complete(&self, mut counts: TrampolineCounts) -> TrampolineCounts {
        for (token, more) in &self.skipped {
            *counts.skipped.entry((*token).to_owned()).or_default() += more;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_a_few_times_and_what_runs_no_python_never() {
        let mut outcome = Outcome::default();
        let refused = |pid, token| Refused { pid, token, cause: "cause".to_owned() };
        for pid in 1..100 {
            outcome.refused(&refused(pid, "timeout"));
            outcome.refused(&refused(pid, NOT_PYTHON));
        }
        outcome.refused(&refused(7, "exited"));
        let told: Vec<String> = outcome.take_warnings().into_iter().map(|warning| warning.message).collect();
        assert_eq!(told.len(), TOLD_OF_KIND as usize + 1);
        assert_eq!(told[0], "python: pid 1: timeout: cause");
        assert_eq!(told[TOLD_OF_KIND as usize], "python: pid 7: exited: cause");
        assert!(outcome.take_warnings().is_empty());
        outcome.skip(NOT_PYTHON, 3);
        let counts = TrampolineCounts { skipped: [(NOT_PYTHON.to_owned(), 2)].into(), ..Default::default() };
        assert_eq!(outcome.complete(counts).skipped[NOT_PYTHON], 5);
    }

    #[test]
    fn maps_are_bounded_and_told_once() {
        let mut outcome = Outcome::default();
        for pid in (1..200).chain([1, 2]) {
            outcome.is_on(pid);
        }
        assert_eq!(outcome.maps.len(), MAX_MAPS);
        assert_eq!(outcome.maps[0].1, PathBuf::from("/tmp/perf-1.map"));
    }
}
