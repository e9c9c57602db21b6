//! A program of the capture that makes code at run time, and its perf map.

use std::sync::Arc;
use std::time::SystemTime;

use symbolization::{JitProgram, PerfMap, PerfMapError};

use super::perf_map_owners::{OwnerSlot, PerfMapOwners};
use crate::processes::ExecInstance;

/// A program that makes code at run time.
pub(crate) struct LiveProgram {
    instance: Arc<ExecInstance>,
    /// Looked for when such code is first seen: later the process may be gone.
    owner: Arc<OwnerSlot>,
}

impl LiveProgram {
    /// Of a program that most probably runs.
    pub(crate) fn at_first_sight(instance: &Arc<ExecInstance>, owners: &mut PerfMapOwners) -> Self {
        Self { instance: Arc::clone(instance), owner: owners.look_for(instance) }
    }
}

impl JitProgram for LiveProgram {
    fn ended(&self) -> Option<SystemTime> {
        self.instance.ended()
    }

    fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
        let ended = self.instance.ended();
        self.owner.with(|owner| match owner {
            Some(owner) => Some(PerfMap::open(owner, ended)),
            None => Some(PerfMap::open(&self.instance.perf_map_owner()?, ended)),
        })?
    }
}
