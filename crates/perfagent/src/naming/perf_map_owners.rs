//! Finds the owners of perf maps on worker threads: their folders may lie on a file system that does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use process::WorkerPool;
use symbolization::PerfMapOwner;

use crate::processes::ExecInstance;

/// Programs in containers for whose perf maps a descriptor is kept. Maps of further programs are found only while they run.
const MAX_FOLDERS: usize = 256;
/// A folder that does not answer within this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a map waits for its owner. The owner is asked for when the program's code is first seen, long before the map.
const OWNER: Duration = Duration::from_secs(1);

/// The workers.
pub(crate) struct PerfMapOwners {
    workers: WorkerPool<()>,
    folders_held: Arc<AtomicUsize>,
}

/// The owner of the perf map of a program, when it is known.
pub(super) struct OwnerSlot {
    /// The inner `None`: the program is gone, or there are too many folders.
    owner: Mutex<Option<Option<PerfMapOwner>>>,
    known: Condvar,
    folders_held: Arc<AtomicUsize>,
}

impl Default for PerfMapOwners {
    fn default() -> Self {
        let spawn = |body| sys::thread::spawn_quiet_thread("maps", body).map(drop);
        Self { workers: WorkerPool::new(Box::new(spawn), PATIENCE), folders_held: Arc::default() }
    }
}

impl PerfMapOwners {
    /// Looks for the owner of a program that most probably runs: later its process may be gone.
    pub(super) fn look_for(&mut self, instance: &Arc<ExecInstance>) -> Arc<OwnerSlot> {
        // Workers that are blocked are replaced.
        self.workers.take(Duration::ZERO);
        let folders_held = Arc::clone(&self.folders_held);
        let slot = Arc::new(OwnerSlot { owner: Mutex::default(), known: Condvar::new(), folders_held });
        let (theirs, instance) = (Arc::clone(&slot), Arc::clone(instance));
        // Each program may lie in a file system of its own.
        self.workers.ask((u32::MAX, instance.pid), move || theirs.set(instance.perf_map_owner()));
        slot
    }
}

impl OwnerSlot {
    fn set(&self, owner: Option<PerfMapOwner>) {
        let may_hold = || self.folders_held.fetch_add(1, Ordering::Relaxed) < MAX_FOLDERS;
        let owner = owner.filter(|owner| {
            let keep = !owner.holds_folder() || may_hold();
            if !keep {
                self.folders_held.fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
        self.known.notify_all();
    }

    /// Uses the owner, after waiting for it for a moment. `None`: its folder does not answer.
    pub(super) fn with<R>(&self, body: impl FnOnce(Option<&PerfMapOwner>) -> R) -> Option<R> {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.known.wait_timeout_while(owner, OWNER, |owner| owner.is_none());
        let owner = waited.unwrap_or_else(PoisonError::into_inner).0;
        owner.as_ref().map(|owner| body(owner.as_ref()))
    }
}

impl Drop for OwnerSlot {
    fn drop(&mut self) {
        let owner = self.owner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_some_and(|owner| owner.as_ref().is_some_and(PerfMapOwner::holds_folder)) {
            self.folders_held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_running_program_is_found_and_of_another_there_is_none() {
        let own = std::process::id();
        let start = process::task::start_time(own).unwrap();
        let mut owners = PerfMapOwners::default();
        let found = |slot: Arc<OwnerSlot>| slot.with(|owner| owner.is_some());
        assert_eq!(found(owners.look_for(&Arc::new(ExecInstance::met(own, start)))), Some(true));
        assert_eq!(found(owners.look_for(&Arc::new(ExecInstance::met(own, start + 1)))), Some(false));
        assert_eq!(owners.folders_held.load(Ordering::Relaxed), 0, "its folder is our own");
    }
}
