//! Switching processes, in the terms of this room.

use python_trampoline::{Counts, Injection, Refusal};
use recording::TrampolineCounts;

use super::refused::Refused;
use crate::Error;

/// The processes that one capture has switched on. Dropping it switches them off.
pub(super) struct Engine(Injection);

impl Engine {
    pub(super) fn new() -> Result<Self, Error> {
        Injection::new().map(Self).map_err(|error| Error::System {
            attempt: "find out the own start time, which marks what is switched on".to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Switches a process on, or leaves it if it is on.
    pub(super) fn add(&self, pid: u32) -> Result<(), Refused> {
        self.0.add(pid).map(drop).map_err(|refusal| refused(pid, refusal))
    }

    /// The same for several processes at once, until `is_over`. Gives those that were refused.
    pub(super) fn add_all(&self, pids: &[u32], is_over: impl Fn() -> bool + Sync) -> Vec<Refused> {
        self.0.add_all(pids, is_over).into_iter().map(|(pid, refusal)| refused(pid, refusal)).collect()
    }

    /// What was done so far.
    pub(super) fn counts(&self) -> TrampolineCounts {
        counts(&self.0.counts())
    }

    /// Switches off what was switched on. Gives those that may still be on.
    pub(super) fn finish(&self) -> (TrampolineCounts, Vec<Refused>) {
        finished(self.0.finish())
    }

    /// Switches off what processes that were on have forked. Gives all that may still be on.
    pub(super) fn finish_forked(&self, pids: &[u32]) -> (TrampolineCounts, Vec<Refused>) {
        finished(self.0.finish_forked(pids))
    }
}

fn finished(finished: Counts) -> (TrampolineCounts, Vec<Refused>) {
    let all = counts(&finished);
    (all, finished.failed.into_iter().map(|(pid, refusal)| refused(pid, refusal)).collect())
}

fn refused(pid: u32, Refusal { token, cause }: Refusal) -> Refused {
    Refused { pid, token: token.name(), cause }
}

fn counts(counts: &Counts) -> TrampolineCounts {
    TrampolineCounts {
        activated: counts.activated,
        already_on: counts.already_on,
        deactivated: counts.deactivated,
        skipped: counts.skipped.iter().map(|(token, count)| (token.name().to_owned(), *count)).collect(),
        failed: counts.failed.len() as u64,
    }
}
