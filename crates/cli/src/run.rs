//! A capture from start to exit status. The only place that drives the engine.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use perfagent::{Agent, Config, Ended, Error, Targets};

use crate::args::CaptureArgs;
use crate::exit_status::ExitStatuses;
use crate::progress::{INTERVAL, Progress};
use crate::signals::Interrupts;
use crate::{ending, header, messages, naming, request, starting};

/// Default length of a capture of processes or of the system. A command is followed to its end.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Runs one capture.
pub fn capture(args: &CaptureArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    let built = request::builder(args).temporary_files(&interrupts.temporary_files).build();
    let finished = built.and_then(|agent| {
        let config = agent.config();
        let length = length(&config);
        let mut target = header::target(&config, &[]);
        let started = starting::while_starting(&agent, || agent.start_cancellable(&interrupts.stop));
        let end = match started {
            Ok(()) => {
                target = header::target(&config, &agent.targets());
                header::print(&config, &target, length);
                if let Some(address) = agent.metrics_address() {
                    messages::note(&format!("metrics are served at http://{address}/metrics"));
                }
                follow(&agent, length, interrupts)
            }
            Err(Error::Cancelled) => End::Signal,
            Err(error) => {
                ending::trampolines(agent.python_stats().as_ref());
                return Err(error);
            }
        };
        let report = naming::while_stopping(&agent, interrupts, || agent.stop_with(&interrupts.abandon))?;
        let is_off = ending::trampolines(agent.python_stats().as_ref());
        let complete = is_off & ending::print(&report, &target, early_end(end, &config, length));
        Ok(statuses.of_report(&report, complete))
    });
    ExitCode::from(match finished {
        Ok(status) => status,
        Err(error) => {
            messages::library_error(&error);
            statuses.of_error(&error)
        }
    })
}

/// How long to capture; none: until the command ends, or until the capture is stopped.
fn length(config: &Config) -> Option<Duration> {
    match config.targets() {
        Targets::Command(_) => config.duration(),
        _ if config.rotate().is_some() => config.duration(),
        _ => Some(config.duration().unwrap_or(DEFAULT_DURATION)),
    }
}

/// Why a capture ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its time is over.
    Time,
    /// A signal asked for the end.
    Signal,
    /// Nothing is left to profile.
    TargetsExited,
}

/// Waits for the end of the capture and draws its progress.
fn follow(agent: &Agent, length: Option<Duration>, interrupts: &Interrupts) -> End {
    let start = Instant::now();
    let mut progress = Progress::new();
    loop {
        let left = length.map(|length| length.saturating_sub(start.elapsed()));
        if interrupts.stop.is_cancelled() {
            return End::Signal;
        }
        if left == Some(Duration::ZERO) {
            return End::Time;
        }
        let slice = left.map_or(INTERVAL, |left| left.min(INTERVAL));
        if agent.wait(slice) != Ended::Duration {
            return End::TargetsExited;
        }
        let ledger = agent.ledger();
        progress.draw(ledger.samples, ledger.lost(), left.map(|left| left.saturating_sub(slice)));
    }
}

/// Why a capture ended before its time, if it did. One without a length ends when it is stopped, or with its command.
fn early_end(end: End, config: &Config, length: Option<Duration>) -> Option<&'static str> {
    let is_command = matches!(config.targets(), Targets::Command(_));
    match (end, length) {
        (End::Time, _) | (End::TargetsExited, None) => None,
        (End::Signal, None) if !is_command => None,
        (End::Signal, _) => Some("stopped by a signal"),
        (End::TargetsExited, Some(_)) if is_command => Some("the command has ended"),
        (End::TargetsExited, Some(_)) => Some("all targets have exited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_has_its_reason() {
        let config = |command: bool| {
            let builder = Agent::builder().with_cpu_profile();
            let builder =
                if command { builder.command(std::process::Command::new("true")) } else { builder.pid(1) };
            builder.effective_config().unwrap()
        };
        let ten = Some(Duration::from_secs(10));
        let of = |end, command, length| early_end(end, &config(command), length);
        assert_eq!(of(End::Time, false, ten), None);
        assert_eq!(of(End::TargetsExited, false, ten), Some("all targets have exited"));
        assert_eq!(of(End::TargetsExited, true, ten), Some("the command has ended"));
        assert_eq!(of(End::TargetsExited, true, None), None);
        assert_eq!(of(End::Signal, false, None), None, "with --rotate it is the way to end");
        assert_eq!(of(End::Signal, true, None), Some("stopped by a signal"));
    }
}
