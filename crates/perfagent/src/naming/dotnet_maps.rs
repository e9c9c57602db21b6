//! The .NET runtimes that were made to write their perf maps, and that all of them are made to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::dotnet::{self, Asked, DotNetError};
use crate::processes::ExecInstance;

/// How long all runtimes together may take to close their maps.
const PATIENCE: Duration = Duration::from_secs(2);

/// The runtimes of a capture. Dropping it turns the maps off that it has turned on.
#[derive(Default)]
pub(crate) struct DotNetMaps(Arc<Shared>);

/// What the threads share that turn maps on and off.
#[derive(Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    on: Vec<On>,
    phase: Phase,
}

/// A runtime that writes its map for us.
struct On {
    program: Arc<ExecInstance>,
    /// It has answered that it does.
    is_sure: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Maps stay on.
    #[default]
    Capture,
    /// Nothing is recorded any more: a map that is turned on is turned off again at once.
    Names,
    Over,
}

impl DotNetMaps {
    /// What programs ask through.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.0)
    }

    /// Nothing is recorded any more: all maps are turned off, so that what the runtimes have not written yet is in them. Tells what failed.
    pub(crate) fn end_capture(&self) -> Vec<String> {
        self.0.enter(Phase::Names)
    }
}

impl Drop for DotNetMaps {
    fn drop(&mut self) {
        for told in self.0.enter(Phase::Over) {
            tracing::warn!(target: "perfagent", "{told}");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns the map of a program on. `None`: it is too late.
    pub(super) fn turn_on(&self, program: &Arc<ExecInstance>) -> Option<Result<Asked, DotNetError>> {
        let mut state = self.lock();
        if state.phase == Phase::Over {
            return None;
        }
        let asked = dotnet::turn_on(program.pid, program.start_time_ticks());
        let is_sure = match &asked {
            Ok(Asked::TurnedOn) => true,
            Err(error) if error.may_have_obeyed() => false,
            _ => return Some(asked),
        };
        state.on.retain(|on| on.program.ended().is_none() && !Arc::ptr_eq(&on.program, program));
        state.on.push(On { program: Arc::clone(program), is_sure });
        if state.phase == Phase::Names {
            turn_off(&mut state.on);
        }
        Some(asked)
    }

    fn enter(&self, phase: Phase) -> Vec<String> {
        let mut state = self.lock();
        state.phase = phase;
        turn_off(&mut state.on)
    }
}

/// Asks all, then waits for all. Tells what failed.
fn turn_off(on: &mut Vec<On>) -> Vec<String> {
    let failed = |program: &ExecInstance, why: &DotNetError| {
        format!("process {} may still write its perf map: {why}", program.pid)
    };
    let (mut told, mut closing) = (Vec::new(), Vec::new());
    for On { program, is_sure } in on.drain(..) {
        // The next program of the process has another runtime, if any.
        if program.ended().is_some() {
            continue;
        }
        match dotnet::turn_off(program.pid, program.start_time_ticks(), is_sure) {
            Ok(found) => closing.extend(found.map(|closing| (program, closing))),
            Err(error) => told.push(failed(&program, &error)),
        }
    }
    let deadline = Instant::now() + PATIENCE;
    for (program, closing) in closing {
        told.extend(closing.finish(deadline, PATIENCE).err().map(|error| failed(&program, &error)));
    }
    told
}
