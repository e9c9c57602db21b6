//! Errors of the kernel side and of perf events as errors of this crate, with what to do about them.

use std::io;
use std::path::Path;

use events::EventSpec;

use crate::config::command as commands;
use crate::error::LoadLog;
use crate::{Error, Targets, privilege};

const SET_UP: &str = "set up the BPF programs";

/// The command could not be run. `file`: the program that was found for it.
pub(crate) fn command_error(targets: &Targets, file: Option<&Path>, source: io::Error) -> Error {
    let program = match targets {
        Targets::Command(program) => program.to_string_lossy().into_owned(),
        _ => String::new(),
    };
    Error::Command { program, hint: file.and_then(|file| commands::hint(file, &source)), source }
}

/// An event could not be opened, attached to or enabled.
pub(crate) fn attach_error(spec: &EventSpec, error: events::Error) -> Error {
    if error.is_permission() {
        return privilege::refusal(&format!("attach {}", spec.name()));
    }
    let source =
        error.errno().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
    Error::Attach { event: spec.name(), cpu: None, source }
}

/// What a refusal of an event by name comes from, if it is about privileges.
pub(crate) fn refused_event(attempt: &str, error: &events::monitor::MonitorError) -> Option<Error> {
    if !error.is_permission() {
        return None;
    }
    match error {
        events::monitor::MonitorError::Open { .. } => Some(privilege::refusal(attempt)),
        _ => privilege::require(false).err(),
    }
}

/// The BPF programs or their maps could not be set up.
pub(crate) fn load_error(error: kernel::Error) -> Error {
    let program = "perf_agent".to_owned();
    match error {
        kernel::Error::Privilege { .. } => privilege::refusal(SET_UP),
        error if error.is_for_want_of_descriptors() => Error::System {
            attempt: SET_UP.to_owned(),
            source: error.errno().map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error),
        },
        kernel::Error::Load { errno: Some(errno), log, .. } => {
            Error::Load { program, log: LoadLog::new(log), source: io::Error::from_raw_os_error(errno) }
        }
        kernel::Error::Load { source, log, .. } => {
            Error::Load { program, log: LoadLog::new(log), source: io::Error::other(format!("{source:#}")) }
        }
        other => Error::System { attempt: SET_UP.to_owned(), source: io::Error::other(other) },
    }
}
