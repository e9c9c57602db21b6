//! A program of the capture that makes code at run time, and its perf map.

use std::sync::Arc;
use std::time::SystemTime;

use symbolization::{JitProgram, PerfMap, PerfMapError, PerfMapOwner};

use crate::processes::ExecInstance;

/// A program that makes code at run time.
pub(crate) struct LiveProgram {
    instance: Arc<ExecInstance>,
    /// Taken when such code is first seen: later the process may be gone.
    owner: Option<PerfMapOwner>,
}

impl LiveProgram {
    /// Of a program that most probably runs. `may_hold`: whether a descriptor may be kept for it.
    pub(crate) fn at_first_sight(instance: &Arc<ExecInstance>, may_hold: bool) -> Self {
        let owner = instance.perf_map_owner().filter(|owner| may_hold || !owner.holds_folder());
        Self { instance: Arc::clone(instance), owner }
    }

    /// Whether a descriptor is kept for it.
    pub(crate) fn holds_folder(&self) -> bool {
        self.owner.as_ref().is_some_and(PerfMapOwner::holds_folder)
    }
}

impl JitProgram for LiveProgram {
    fn ended(&self) -> Option<SystemTime> {
        self.instance.ended()
    }

    fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
        let ended = self.instance.ended();
        match &self.owner {
            Some(owner) => Some(PerfMap::open(owner, ended)),
            None => Some(PerfMap::open(&self.instance.perf_map_owner()?, ended)),
        }
    }
}
