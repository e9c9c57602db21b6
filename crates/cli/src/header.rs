//! The lines at the start of a capture: what is captured, of which target, for how long.

use std::time::Duration;

use perfagent::{Config, HeapMode, TargetProcess, Targets};

use crate::messages;

/// Whose capture it is.
pub fn target(config: &Config, targets: &[TargetProcess]) -> String {
    let target = match config.targets() {
        // Without targets the capture has not begun.
        Targets::Pids(_) if targets.is_empty() => "no process".to_owned(),
        Targets::Pids(_) => targets.iter().map(described).collect::<Vec<_>>().join(", "),
        Targets::System => "system-wide".to_owned(),
        Targets::Command(program) => format!("command {}", program.to_string_lossy()),
        _ => "unknown target".to_owned(),
    };
    target + &filters(config)
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
    debuginfod(&config.debuginfod_servers());
    for (event, period) in config.events() {
        let each = if period == 1 { "each one".to_owned() } else { format!("one sample for {period}") };
        messages::note(&format!("profile of {event}: {target}, {each}, {length}"));
    }
    match config.events().count() {
        1.. => {}
        _ if config.heap().is_some() => {
            let how = match config.heap() {
                Some(HeapMode::Exact) => {
                    "each allocation and each free, at about 2.5 µs of the target's CPU time for each"
                }
                _ => {
                    "the allocator's own samples if it takes some, else each allocation and each free as long as that is cheap"
                }
            };
            messages::note(&format!("heap profile: {target}, {how}, {length}"));
        }
        _ if config.cpu_profile() => {
            messages::note(&format!("on-CPU profile: {target}, {} Hz, {length}", config.sample_rate_hz()));
        }
        _ => {}
    }
    if config.pmu() {
        let events: Vec<_> = config.pmu_events().collect();
        messages::note(&format!("metrics: {target}, {}, {length}", events.join(" ")));
    }
    if config.locks() {
        messages::note(&format!("locks: {target}, {length}"));
    }
    if config.off_cpu_profile() {
        let states: Vec<_> = config.off_cpu_states().iter().map(|state| state.name()).collect();
        messages::note(&format!("off-CPU profile: {target}, {}, {length}", states.join(" and ")));
    }
}

/// Names the servers from which debug files are fetched.
pub fn debuginfod(servers: &[String]) {
    if !servers.is_empty() {
        messages::note(&format!("debug files that are missing here are fetched from {}", servers.join(", ")));
    }
}

/// The filters of samples.
fn filters(config: &Config) -> String {
    let tids: Vec<_> = config.tids().iter().map(ToString::to_string).collect();
    let tids = if tids.is_empty() { String::new() } else { format!(", only tid {}", tids.join(" and ")) };
    let group = config.cgroup().map(|group| format!(", only cgroup {group}")).unwrap_or_default();
    tids + &group
}

/// A target with its name and the number of its descendants.
fn described(target: &TargetProcess) -> String {
    let TargetProcess { pid, comm, descendants, .. } = target;
    let name = if comm.is_empty() { String::new() } else { format!(" ({comm})") };
    match descendants {
        0 => format!("pid {pid}{name}"),
        1 => format!("pid {pid}{name} and 1 child"),
        _ => format!("pid {pid}{name} and {descendants} children"),
    }
}
