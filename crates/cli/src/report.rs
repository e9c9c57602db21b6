//! Prints the result of a capture: the end of the command, warnings, paths, the ledger.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use perfagent::{CommandStatus, Report};

use crate::messages;

/// Prints a report. Returns whether every output was written.
pub fn print(report: &Report) -> bool {
    if let Some(status) = &report.command_status {
        messages::line(&command_end(status));
    }
    for warning in &report.warnings {
        messages::warning(&warning.message, warning.hint.as_deref());
    }
    if report.intervals > 1 {
        messages::line(&format!("wrote outputs of {} intervals; those of the last one:", report.intervals));
    }
    let mut complete = true;
    for output in &report.outputs {
        match &output.result {
            Ok(()) => {
                let place = output.path.as_ref().map(|path| path.display().to_string());
                let place = place.unwrap_or_else(|| "standard output".to_owned());
                messages::line(&format!("wrote {place} ({} bytes)", output.bytes));
            }
            Err(error) => {
                complete = false;
                messages::library_error(error);
            }
        }
    }
    for ledger in &report.ledgers {
        let entries = ledger.entries();
        let width = entries.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        messages::line("ledger:");
        for (key, value) in &entries {
            messages::line(&format!("  {key:width$}  {value}"));
        }
    }
    complete
}

fn command_end(status: &CommandStatus) -> String {
    match status {
        CommandStatus::Exited(status) => format!("command {}", exit(*status)),
        CommandStatus::Running(pid) => format!("command still running (pid {pid})"),
        _ => "command ended".to_owned(),
    }
}

fn exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).map(str::to_owned);
            format!("killed by signal {}", name.unwrap_or_else(|| signal.to_string()))
        }
        (None, None) => format!("ended: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_named() {
        assert_eq!(exit(ExitStatus::from_raw(3 << 8)), "exited with status 3");
        assert_eq!(exit(ExitStatus::from_raw(9)), "killed by signal SIGKILL");
        assert_eq!(exit(ExitStatus::from_raw(64)), "killed by signal 64");
        assert_eq!(command_end(&CommandStatus::Running(7)), "command still running (pid 7)");
    }
}
