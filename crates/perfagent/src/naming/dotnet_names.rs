//! When a .NET runtime is asked to write its perf map: when its code is first seen, and again if another program has turned it off meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::dotnet_maps::Shared;
use super::pace::Pace;
use crate::dotnet::{Asked, DotNetError};
use crate::processes::ExecInstance;

/// The requests to one program, which may run on .NET.
pub(super) struct DotNetNames {
    maps: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// There is nothing more to ask: it is none, or does not answer.
    is_settled: bool,
    /// It writes its map, or wrote it for us.
    was_answered: bool,
    /// Why it did not answer was told.
    was_told: bool,
    pace: Pace,
}

impl DotNetNames {
    pub(super) fn new(maps: Arc<Shared>) -> Self {
        Self { maps, state: Mutex::default() }
    }

    /// Asks the program if it is time to. `None`: nothing is to be said.
    pub(super) fn ask(&self, program: &Arc<ExecInstance>, is_last: bool) -> Option<Result<(), String>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_settled {
            return None;
        }
        if program.ended().is_some() {
            let is_lost = is_last && !state.was_answered && !state.was_told && state.pace.has_begun();
            return is_lost.then(|| Err("it ended before it could be asked".to_owned()));
        }
        // What it has written meanwhile is read anyway.
        if (is_last && state.was_answered) || !state.pace.is_due(Instant::now(), is_last) {
            return None;
        }
        match self.maps.turn_on(program)? {
            Ok(Asked::NoRuntime) => {
                state.is_settled = true;
                None
            }
            Ok(asked) => {
                state.was_answered = true;
                (asked == Asked::TurnedOn).then_some(Ok(()))
            }
            Err(error) if error.may_pass() && !is_last => None,
            Err(error) => {
                state.is_settled = !matches!(error, DotNetError::Stopped);
                state.was_told = true;
                Some(Err(error.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dotnet_maps::DotNetMaps;
    use super::*;

    #[test]
    fn a_program_without_a_runtime_is_left_alone() {
        let own = std::process::id();
        let program = Arc::new(ExecInstance::met(own, process::task::start_time(own).unwrap()));
        let names = DotNetNames::new(DotNetMaps::default().shared());
        assert_eq!((names.ask(&program, false), names.ask(&program, true)), (None, None), "too late");
        let maps = DotNetMaps::default();
        let names = DotNetNames::new(maps.shared());
        assert_eq!((names.ask(&program, false), names.ask(&program, true)), (None, None));
        assert!(names.state.lock().unwrap().is_settled);
        assert_eq!(maps.end_capture(), [] as [String; 0]);
    }
}
