//! When a JVM is asked for its perf map: when its code is first seen, while new code without names is seen, and at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::java;
use crate::processes::ExecInstance;

/// Between two requests: at first, and at most. In between it doubles. A map costs the JVM about 1 ms for 1000 methods.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
    /// The last request and the pause after it.
    asked: Option<(Instant, Duration)>,
}

impl State {
    /// Whether it is time for a request; then the pause after the next one is longer.
    fn is_due(&mut self, now: Instant, is_last: bool) -> bool {
        let waits = |(at, pause): (Instant, Duration)| now.saturating_duration_since(at) < pause;
        if self.is_no_jvm || (!is_last && self.asked.is_some_and(waits)) {
            return false;
        }
        let pause = self.asked.map_or(FIRST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
        self.asked = Some((now, pause));
        true
    }
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
                && state.asked.is_some();
            return is_lost.then(|| Err("it ended before it could be asked".to_owned()));
        }
        if !state.is_due(Instant::now(), is_last) {
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
    fn requests_come_with_growing_pauses_and_one_at_the_end() {
        let (mut state, begin) = (State::default(), Instant::now());
        let mut due = |seconds, is_last| state.is_due(begin + Duration::from_secs(seconds), is_last);
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 8].map(|at| due(at, false)),
            [true, true, false, true, false, true, false]
        );
        assert!(due(8, true));
        state.asked = Some((begin, LONGEST_PAUSE));
        assert!(state.is_due(begin + LONGEST_PAUSE, false));
        assert_eq!(state.asked, Some((begin + LONGEST_PAUSE, LONGEST_PAUSE)));
        state.is_no_jvm = true;
        assert!(!state.is_due(begin + 9 * LONGEST_PAUSE, true));
    }

    #[test]
    fn a_program_that_is_no_jvm_is_left_alone() {
        let own = std::process::id();
        let program = ExecInstance::met(own, process::task::start_time(own).unwrap());
        let names = JavaNames::default();
        assert_eq!((names.ask(&program, false), names.ask(&program, true)), (None, None));
        assert!(names.state.lock().unwrap().is_no_jvm && !names.was_answered());
    }
}
