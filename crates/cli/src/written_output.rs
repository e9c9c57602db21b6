//! The file that a subcommand writes: what is refused, and what is told at the end.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use perfagent::Error;

use crate::exit_status::ExitStatuses;
use crate::{ending, messages};

/// Whether standard output is a terminal, which must not get the binary output that `option` sends there. Then the error is told.
pub fn is_refused(option: &str) -> bool {
    let is_terminal = io::stdout().is_terminal();
    if is_terminal {
        let error = format!("{option} -: the output is binary, and standard output is a terminal");
        messages::error(&error, Some("redirect standard output (> FILE), or give a path"));
    }
    is_terminal
}

/// Tells what was written, or why it was not.
pub fn end(output: &OsStr, written: Result<u64, Error>, statuses: ExitStatuses) -> ExitCode {
    match written {
        Ok(bytes) => {
            if output != "-" {
                ending::wrote(Path::new(output), bytes);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            messages::library_error(&error);
            ExitCode::from(statuses.failed)
        }
    }
}
