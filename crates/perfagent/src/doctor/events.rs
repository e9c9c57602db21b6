//! Checks of events: whether they open, and which event sources exist.

use std::io;

use sys::perf::{self, Attr};

use super::check::{Check, Status, read};
use crate::privilege;

const SOURCES: &str = "/sys/bus/event_source/devices";

fn open(kind: u32, config: u64, cpu: i32) -> io::Result<()> {
    let attr = Attr { kind, config, flags: perf::DISABLED, ..Attr::default() };
    let pid = if cpu < 0 { 0 } else { -1 };
    perf::open(&attr, pid, cpu, None).map(drop)
}

/// Opens the clock of on-CPU sampling on the first online CPU, for all processes.
pub(super) fn sampling() -> Check {
    let result = open(perf::TYPE_SOFTWARE, perf::SW_CPU_CLOCK, first_online_cpu());
    let check = |status, value| Check::new("sampling event", "--profile", status, value);
    match result {
        Ok(()) => check(Status::Ok, "software/cpu-clock opens".to_owned()),
        Err(error) => check(Status::Fail, format!("software/cpu-clock: {error}")).fixed_by(fix(&error)),
    }
}

fn first_online_cpu() -> i32 {
    let online = read("/sys/devices/system/cpu/online").unwrap_or_default();
    online.split(['-', ',']).next().and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
}

fn fix(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{}; a container's seccomp profile may also forbid it", privilege::setcap_line())
        }
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => "CONFIG_PERF_EVENTS=y".to_owned(),
        _ => "allow the system call perf_event_open, also in the container's seccomp profile".to_owned(),
    }
}

/// Opens a hardware counter of the processor.
pub(super) fn pmu() -> Check {
    let sources = sources();
    let cycles = open(perf::TYPE_HARDWARE, perf::HW_CPU_CYCLES, -1);
    let check = |status, value| Check::new("pmu", "hardware counters", status, value);
    match cycles {
        Ok(()) => check(Status::Ok, format!("hardware/cpu-cycles opens; sources: {sources}")),
        Err(error) => check(Status::Warn, format!("hardware/cpu-cycles: {error}; sources: {sources}"))
            .fixed_by(pmu_fix(&error)),
    }
}

fn pmu_fix(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => fix(error),
        _ => "a virtual machine or container without PMU: software events are used instead".to_owned(),
    }
}

fn sources() -> String {
    let Ok(entries) = std::fs::read_dir(SOURCES) else { return format!("{SOURCES} not readable") };
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names.join(" ")
}

/// Looks for probes on kernel functions and on programs.
pub(super) fn probes() -> Check {
    let there = |source: &str| std::fs::exists(format!("{SOURCES}/{source}/type")).unwrap_or(false);
    judge_probes(there("kprobe"), there("uprobe"))
}

fn judge_probes(kprobe: bool, uprobe: bool) -> Check {
    let word = |there: bool| if there { "yes" } else { "no" };
    let value = format!("kprobe {}, uprobe {}", word(kprobe), word(uprobe));
    let check = |status| Check::new("probes", "probe events; no profile needs them", status, value.clone());
    match (kprobe, uprobe) {
        (true, true) => check(Status::Ok),
        (false, true) => check(Status::Warn).fixed_by("CONFIG_KPROBE_EVENTS=y"),
        (true, false) => check(Status::Warn).fixed_by("CONFIG_UPROBE_EVENTS=y"),
        (false, false) => check(Status::Warn).fixed_by("CONFIG_KPROBE_EVENTS=y and CONFIG_UPROBE_EVENTS=y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_probe_names_its_config_option() {
        assert_eq!(judge_probes(true, true).status, Status::Ok);
        let check = judge_probes(false, true);
        assert_eq!((check.status, check.value.as_str()), (Status::Warn, "kprobe no, uprobe yes"));
        assert_eq!(check.fix.as_deref(), Some("CONFIG_KPROBE_EVENTS=y"));
    }

    #[test]
    fn each_error_has_its_own_fix() {
        assert!(fix(&io::Error::from_raw_os_error(13)).contains("setcap"));
        assert!(fix(&io::Error::from_raw_os_error(2)).contains("CONFIG_PERF_EVENTS"));
        assert!(!fix(&io::Error::from_raw_os_error(22)).is_empty());
        assert!(pmu_fix(&io::Error::from_raw_os_error(13)).contains("setcap"));
        assert!(pmu_fix(&io::Error::from_raw_os_error(2)).contains("without PMU"));
    }
}
