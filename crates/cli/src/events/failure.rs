//! What is said when the kernel's events cannot be had.

use std::process::ExitCode;

use ::events::monitor::MonitorError;

use crate::exit_status::ExitStatuses;
use crate::messages;

/// Tells an error of the kernel's events. Its text says what to do.
pub fn failed(error: &MonitorError, statuses: ExitStatuses) -> ExitCode {
    tell(&error.to_string());
    ExitCode::from(statuses.failed)
}

/// Tells an error whose text ends with what to do.
pub fn tell(text: &str) {
    match text.split_once("; ") {
        Some((what, hint)) => messages::error(what, Some(hint)),
        None => messages::error(text, None),
    }
}
