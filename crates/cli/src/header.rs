//! The lines at the start of a capture: what is captured, of which target, for how long.

use std::time::Duration;

use perfagent::{Config, Targets};

use crate::{messages, request};

/// Whose capture it is.
pub fn target(config: &Config) -> String {
    match config.targets() {
        Targets::Pids(pids) => pids.iter().map(|pid| named(*pid)).collect::<Vec<_>>().join(", "),
        Targets::System => "system-wide".to_owned(),
        Targets::Command(program) => format!("command {}", program.to_string_lossy()),
        _ => "unknown target".to_owned(),
    }
}

/// Prints one line for each mode: target, rate or states, length.
pub fn print(config: &Config, target: &str, length: Option<Duration>) {
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
