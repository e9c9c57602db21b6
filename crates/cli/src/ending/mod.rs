//! The end of a capture on standard error: facts, the hottest functions, what was written, and how to look further.

mod facts;
mod further;
mod hot_table;
mod long_name;
mod trampolines;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use perfagent::{Advice, CommandStatus, Mode, OutputReport, Recording, Report};

use crate::console::{Tone, console};
use crate::messages;

pub use trampolines::tell as trampolines;

/// Functions in the table of a profile.
const HOTTEST: usize = 10;

/// Prints the end of a capture of `target`. `early` tells why it ended before its time. Returns whether every output was written.
pub fn print(report: &Report, target: &str, early: Option<&str>) -> bool {
    if let Some(status) = &report.command_status {
        messages::note(&command_end(status));
    }
    for warning in &report.warnings {
        messages::warning(&warning.message, warning.hint.as_deref());
    }
    profiles(report, target, early);
    fetches(report.recording());
    advice(&report.advice());
    if report.intervals > 1 {
        messages::note(&format!("wrote outputs of {} intervals; those of the last one:", report.intervals));
    }
    let complete = outputs(&report.outputs);
    if let Some(command) = further::command(&report.outputs) {
        messages::note(&format!("look further: {command}"));
    }
    if console().verbose {
        report.ledgers.iter().for_each(|ledger| print_ledger("ledger:", &ledger.entries()));
    }
    complete
}

/// Prints how the command ended, and these facts.
pub fn facts_only(report: &Report, facts: &[String]) {
    if let Some(status) = &report.command_status {
        messages::note(&command_end(status));
    }
    if !console().quiet {
        facts.iter().for_each(|line| messages::strong(line));
    }
}

/// Prints facts and the hottest functions of each profile.
fn profiles(report: &Report, target: &str, early: Option<&str>) {
    if console().quiet {
        return;
    }
    for ledger in &report.ledgers {
        messages::strong(&facts::line(ledger, target, early));
        // Which functions wait for locks, their report tells better.
        let hottest = if ledger.mode == Mode::Locks { None } else { report.hottest(ledger.mode, HOTTEST) };
        if let Some(hottest) = hottest {
            hot_table::lines(&hottest, console()).iter().for_each(|line| messages::styled(line));
        }
    }
}

/// Prints what was fetched for the names, if servers were configured.
pub fn fetches(recording: &Recording) {
    if let Some(fetches) = recording.model().names.outcome.fetches {
        let figures = fetches.entries().map(|(name, value)| format!("{name} {value}"));
        messages::note(&format!("debuginfod: {}", figures.join(", ")));
    }
}

/// Prints what is poor about the result, and what to do about it.
pub fn advice(advice: &[Advice]) {
    if !console().quiet {
        advice.iter().for_each(|advice| messages::headed(Tone::Hint, "advice:", &advice.line()));
    }
}

/// Tells where the outputs are. Returns whether every output was written.
fn outputs(outputs: &[OutputReport]) -> bool {
    let mut complete = true;
    for output in outputs {
        match (&output.result, &output.path) {
            (Ok(()), Some(path)) => wrote(path, output.bytes),
            // Its reader has it.
            (Ok(()), None) => {}
            (Err(error), _) => {
                complete = false;
                messages::library_error(error);
            }
        }
    }
    complete
}

/// Tells that a file was written.
pub fn wrote(path: &Path, bytes: u64) {
    let bytes = console().paint(Tone::Faint, &format!("({bytes} bytes)"));
    messages::styled_note(&format!("wrote {} {bytes}", perfagent::visible(&path.display().to_string())));
}

/// Prints keys and values below a heading.
pub fn print_ledger(heading: &str, entries: &[(String, String)]) {
    messages::line(heading);
    let width = entries.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in entries {
        messages::line(&format!("  {key:width$}  {value}"));
    }
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
