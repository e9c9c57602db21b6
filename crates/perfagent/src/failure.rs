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
    if error.is_permission()
        && let Err(missing) = privilege::require(false)
    {
        return missing;
    }
    let source =
        error.errno().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
    Error::Attach { event: spec.name(), cpu: None, source }
}

/// The BPF programs or their maps could not be set up.
pub(crate) fn load_error(error: kernel::Error) -> Error {
    let program = "perf_agent".to_owned();
    match error {
        kernel::Error::Privilege { .. } => Error::Privilege {
            missing: vec!["cap_bpf".into(), "cap_perfmon".into()],
            setcap_line: privilege::setcap_line(),
        },
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
