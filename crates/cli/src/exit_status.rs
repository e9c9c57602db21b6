//! The exit statuses of this program.
//!
//! A capture of a command ends with the status of the command. So its own failures have statuses that commands rarely use, the
//! same as those of env(1) and timeout(1).

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use perfagent::{CommandStatus, Error, ErrorKind, Report};

/// Errno of a missing file.
const ENOENT: i32 = 2;

/// The statuses of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatuses {
    /// Something failed at run time.
    pub failed: u8,
    /// The command line was rejected.
    pub rejected: u8,
}

impl ExitStatuses {
    const WITHOUT_COMMAND: Self = Self { failed: 1, rejected: 2 };
    const WITH_COMMAND: Self = Self { failed: 125, rejected: 125 };
    /// The file of the command cannot be executed.
    const NOT_EXECUTABLE: u8 = 126;
    /// There is no such command.
    const NOT_FOUND: u8 = 127;

    /// The statuses of a run with this command line.
    pub fn of(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut words = words.into_iter();
        match words.any(|word| word == "--") && words.next().is_some() {
            true => Self::WITH_COMMAND,
            false => Self::WITHOUT_COMMAND,
        }
    }

    /// The status after an error.
    pub fn of_error(self, error: &Error) -> u8 {
        match error {
            Error::Command { .. } => of_command_error(error),
            Error::InvalidConfig { option, .. } if option == "-- CMD" => of_command_error(error),
            _ if error.kind() == ErrorKind::InvalidConfig => self.rejected,
            _ => self.failed,
        }
    }

    /// The status after a capture. `complete`: every output was written.
    pub fn of_report(self, report: &Report, complete: bool) -> u8 {
        match report.command_status {
            _ if !complete => self.failed,
            Some(CommandStatus::Exited(status)) => of_command(status),
            _ => 0,
        }
    }
}

fn of_command_error(error: &Error) -> u8 {
    of_exec_error(error.errno())
}

/// The status if a command cannot be executed.
pub fn of_exec_error(errno: Option<i32>) -> u8 {
    match errno {
        Some(ENOENT) => ExitStatuses::NOT_FOUND,
        _ => ExitStatuses::NOT_EXECUTABLE,
    }
}

/// The status of a command as shells show it: 128 is added to the number of a signal.
pub fn of_command(status: ExitStatus) -> u8 {
    let number = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(0);
    // The kernel keeps 8 bits of a status and 7 of a signal.
    number as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> ExitStatuses {
        ExitStatuses::of(words.iter().map(OsString::from))
    }

    #[test]
    fn a_command_changes_the_statuses_of_failures() {
        assert_eq!(of(&["perf-agent", "--profile", "--", "true"]), ExitStatuses::WITH_COMMAND);
        assert_eq!(of(&["perf-agent", "--profile", "--"]), ExitStatuses::WITHOUT_COMMAND);
        assert_eq!(of(&["perf-agent", "--pid", "1"]), ExitStatuses::WITHOUT_COMMAND);
    }

    #[test]
    fn signals_are_shown_as_by_shells() {
        assert_eq!(of_command(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(of_command(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(of_command(ExitStatus::from_raw(9)), 137);
    }
}
