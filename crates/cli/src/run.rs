//! A capture from start to exit status. The only place that drives the engine.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use perfagent::{Agent, Config, Ended, Error, ErrorKind, Report, Targets};

use crate::args::CaptureArgs;
use crate::exit_status::{FAILED, REJECTED};
use crate::progress::{INTERVAL, Progress};
use crate::signals::Interrupts;
use crate::{ending, messages, naming, request, starting};

/// Default length of a capture of processes or of the system. A command is followed to its end.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Runs one capture.
pub fn capture(args: &CaptureArgs, interrupts: &Interrupts) -> ExitCode {
    let built = request::builder(args).temporary_files(&interrupts.temporary_files).build();
    let finished = built.and_then(|agent| {
        let config = agent.config();
        let length = length(&config);
        let target = target(&config);
        announce(&config, &target, length);
        match starting::while_starting(&agent, || agent.start_cancellable(&interrupts.stop)) {
            Ok(()) => {
                if let Some(address) = agent.metrics_address() {
                    messages::note(&format!("metrics are served at http://{address}/metrics"));
                }
                follow(&agent, length, interrupts);
            }
            Err(Error::Cancelled) => {}
            Err(error) => return Err(error),
        }
        let report = naming::while_stopping(&agent, interrupts, || agent.stop_with(&interrupts.abandon))?;
        let early = early(&config, &report, length);
        Ok(ending::print(&report, &target, early))
    });
    match finished {
        Ok(complete) => {
            if complete {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(FAILED)
            }
        }
        Err(error) => {
            messages::library_error(&error);
            ExitCode::from(if error.kind() == ErrorKind::InvalidConfig { REJECTED } else { FAILED })
        }
    }
}

/// How long to capture; none: until the command ends, or until the capture is stopped.
fn length(config: &Config) -> Option<Duration> {
    match config.targets() {
        Targets::Command(_) => config.duration(),
        _ if config.rotate().is_some() => config.duration(),
        _ => Some(config.duration().unwrap_or(DEFAULT_DURATION)),
    }
}

/// Waits for the end of the capture and draws its progress.
fn follow(agent: &Agent, length: Option<Duration>, interrupts: &Interrupts) {
    let start = Instant::now();
    let mut progress = Progress::new();
    loop {
        let left = length.map(|length| length.saturating_sub(start.elapsed()));
        if left == Some(Duration::ZERO) || interrupts.stop.is_cancelled() {
            return;
        }
        let slice = left.map_or(INTERVAL, |left| left.min(INTERVAL));
        if agent.wait(slice) != Ended::Duration {
            return;
        }
        let ledger = agent.ledger();
        progress.draw(ledger.samples, ledger.lost(), left.map(|left| left.saturating_sub(slice)));
    }
}

/// Why the capture ended before its time, if it did.
fn early(config: &Config, report: &Report, length: Option<Duration>) -> Option<&'static str> {
    let is_short = length.is_some_and(|length| report.duration < length);
    match report.ended_by {
        Ended::TargetsExited if is_short => Some(match config.targets() {
            Targets::Command(_) => "the command ended",
            _ => "the targets ended",
        }),
        Ended::Stopped if is_short || matches!(config.targets(), Targets::Command(_)) => {
            Some("stopped by a signal")
        }
        _ => None,
    }
}

/// Whose capture it is.
fn target(config: &Config) -> String {
    match config.targets() {
        Targets::Pids(pids) => pids.iter().map(|pid| named(*pid)).collect::<Vec<_>>().join(", "),
        Targets::System => "system-wide".to_owned(),
        Targets::Command(program) => format!("command {}", program.to_string_lossy()),
        _ => "unknown target".to_owned(),
    }
}

/// Prints one line for each mode: target, rate or states, length.
fn announce(config: &Config, target: &str, length: Option<Duration>) {
    let mut length = match (length, config.targets()) {
        (Some(length), _) => format!("for {length:?}"),
        (None, Targets::Command(_)) => "until the command ends".to_owned(),
        (None, _) => "until it is stopped".to_owned(),
    };
    if let Some(every) = config.rotate() {
        length += &format!(", one set of outputs every {every:?}");
    }
    if config.cpu_profile() {
        messages::note(&format!("on-CPU profile: {target}, {} Hz, {length}", config.sample_rate_hz()));
    }
    if config.pmu() {
        let events: Vec<_> = config.pmu_events().collect();
        messages::note(&format!("metrics: {target}, {}, {length}", events.join(" ")));
    }
    if config.off_cpu_profile() {
        let states: Vec<_> = config.off_cpu_states().iter().map(|state| state.name()).collect();
        messages::note(&format!("off-CPU profile: {target}, {}, {length}", states.join(" and ")));
    }
}

fn named(number: u32) -> String {
    let pid = request::process_of(number);
    let comm = request::comm(pid);
    let name = if comm.is_empty() { String::new() } else { format!(" ({})", String::from_utf8_lossy(&comm)) };
    format!("pid {pid}{name}")
}
