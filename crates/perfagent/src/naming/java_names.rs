//! When a JVM is asked for its perf map: when its code is first seen, while new code without names is seen, and at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::pace::Pace;
use crate::java;
use crate::processes::ExecInstance;

/// The requests to one program, which may be a JVM.
#[derive(Default)]
pub(super) struct JavaNames {
    state: Mutex<State>,
    /// Not in the state, which is locked while the JVM is asked.
    was_answered: AtomicBool,
}

#[derive(Default)]
struct State {
    /// It is none, so it is not asked.
    is_no_jvm: bool,
    /// Why it did not answer was told.
    was_told: bool,
    pace: Pace,
}

impl JavaNames {
    /// Asks the program if it is time to, or if this is the last moment. `None`: nothing is to be said.
    pub(super) fn ask(&self, program: &ExecInstance, is_last: bool) -> Option<Result<(), String>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if program.ended().is_some() {
            // A map from before the end names most of its code.
            let is_lost = is_last
                && !self.was_answered()
                && !state.is_no_jvm
                && !state.was_told
                && state.pace.has_begun();
            return is_lost.then(|| Err("it ended before it could be asked".to_owned()));
        }
        if state.is_no_jvm || !state.pace.is_due(Instant::now(), is_last) {
            return None;
        }
        match java::write_perf_map(program.pid, program.start_time_ticks()) {
            Ok(true) => {
                self.was_answered.store(true, Ordering::Relaxed);
                Some(Ok(()))
            }
            Ok(false) => {
                state.is_no_jvm = true;
                None
            }
            Err(error) if error.may_pass() && !is_last => None,
            Err(error) => {
                state.was_told = true;
                Some(Err(error.to_string()))
            }
        }
    }

    /// Whether it has written a map for us: a later one may say something else.
    pub(super) fn was_answered(&self) -> bool {
        self.was_answered.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_jvm_is_left_alone() {
        let own = std::process::id();
        let program = ExecInstance::met(own, process::task::start_time(own).unwrap());
        let names = JavaNames::default();
        assert_eq!((names.ask(&program, false), names.ask(&program, true)), (None, None));
        assert!(names.state.lock().unwrap().is_no_jvm && !names.was_answered());
    }
}
