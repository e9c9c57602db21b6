//! Checks of sysctls, each with the capability that makes the sysctl irrelevant.

use std::io::{BufRead, BufReader};

use sys::caps::{self, CapabilitySet};

use super::check::{Check, Status, read};
use crate::config::DEFAULT_SAMPLE_RATE_HZ;
use crate::privilege;

/// Number of lines to read. A few hundred symbols at address zero (per-CPU symbols) come first.
const KALLSYMS_LINES: usize = 20_000;

fn has(capability: CapabilitySet) -> bool {
    caps::effective().is_ok_and(|set| {
        let stands_for = CapabilitySet::BPF | CapabilitySet::PERFMON;
        set.contains(capability)
            || (stands_for.contains(capability) && set.contains(CapabilitySet::SYS_ADMIN))
    })
}

fn number(path: &str) -> Option<i64> {
    read(path)?.parse().ok()
}

/// The four sysctls that limit events and programs.
pub(super) fn checks() -> [Check; 4] {
    [
        paranoid(number("/proc/sys/kernel/perf_event_paranoid"), has(CapabilitySet::PERFMON)),
        unprivileged_bpf(number("/proc/sys/kernel/unprivileged_bpf_disabled"), has(CapabilitySet::BPF)),
        locked_memory(number("/proc/sys/kernel/perf_event_mlock_kb"), has(CapabilitySet::IPC_LOCK)),
        max_sample_rate(number("/proc/sys/kernel/perf_event_max_sample_rate")),
    ]
}

fn paranoid(level: Option<i64>, perfmon: bool) -> Check {
    let check = |status, value: String| Check::new("perf_event_paranoid", "every mode", status, value);
    match level {
        None => check(Status::Fail, "missing: this kernel has no perf events".into())
            .fixed_by("CONFIG_PERF_EVENTS=y"),
        Some(level) if level < 0 || perfmon => {
            check(Status::Ok, format!("{level}{}", if perfmon { " (moot with cap_perfmon)" } else { "" }))
        }
        Some(level) => check(Status::Warn, format!("{level}, and cap_perfmon is missing"))
            .fixed_by("grant cap_perfmon, or `sysctl -w kernel.perf_event_paranoid=-1`"),
    }
}

fn unprivileged_bpf(level: Option<i64>, bpf: bool) -> Check {
    let check = |status, value: String| Check::new("unprivileged_bpf_disabled", "every mode", status, value);
    match (level, bpf) {
        (None, true) => check(Status::Ok, "not known to this kernel".into()),
        (Some(level), true) => check(Status::Ok, format!("{level} (moot with cap_bpf)")),
        (level, false) => {
            let level = level.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
            check(Status::Warn, format!("{level}, and cap_bpf is missing"))
                .fixed_by("grant cap_bpf; profiling programs are never unprivileged")
        }
    }
}

fn locked_memory(kib: Option<i64>, ipc_lock: bool) -> Check {
    let value = kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{kib} KiB per CPU"));
    let check = |status, value| Check::new("perf_event_mlock_kb", "size of the event rings", status, value);
    match kib {
        _ if ipc_lock => check(Status::Ok, format!("{value} (moot with cap_ipc_lock)")),
        Some(kib) if kib >= 516 => check(Status::Ok, value),
        _ => check(Status::Warn, value)
            .fixed_by("grant cap_ipc_lock, or `sysctl -w kernel.perf_event_mlock_kb=516`"),
    }
}

fn max_sample_rate(hz: Option<i64>) -> Check {
    let check =
        |status, value: String| Check::new("perf_event_max_sample_rate", "--sample-rate", status, value);
    let fix = "`sysctl -w kernel.perf_event_max_sample_rate=100000` (the kernel lowers it itself under load; \
               see kernel.perf_cpu_time_max_percent)";
    match hz {
        None => check(Status::Warn, "unknown".into()).fixed_by(fix),
        Some(hz) if hz < i64::from(DEFAULT_SAMPLE_RATE_HZ) => {
            check(Status::Warn, format!("{hz} Hz: less than the default rate")).fixed_by(fix)
        }
        Some(hz) => check(Status::Ok, format!("{hz} Hz")),
    }
}

/// Checks whether kernel addresses are visible.
pub(super) fn kallsyms() -> Check {
    let visible = std::fs::File::open("/proc/kallsyms").map(|file| {
        BufReader::new(file).lines().take(KALLSYMS_LINES).map_while(Result::ok).any(|line| {
            line.split(' ').next().is_some_and(|address| address.bytes().any(|digit| digit != b'0'))
        })
    });
    judge_kallsyms(visible.map_err(|error| error.to_string()), privilege::kptr_restrict())
}

fn judge_kallsyms(visible: Result<bool, String>, kptr_restrict: Option<i64>) -> Check {
    let shown = kptr_restrict.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let kptr = format!("kptr_restrict {shown}");
    let check = |status, value| Check::new("kallsyms", "names of kernel frames", status, value);
    match visible {
        Ok(true) => check(Status::Ok, format!("addresses visible; {kptr}")),
        Ok(false) => check(Status::Warn, format!("addresses hidden; {kptr}"))
            .fixed_by(privilege::kernel_addresses_fix(kptr_restrict)),
        Err(error) => {
            check(Status::Warn, format!("/proc/kallsyms: {error}; {kptr}")).fixed_by("CONFIG_KALLSYMS=y")
        }
    }
}

/// Checks Yama's restriction of ptrace.
pub(super) fn ptrace_scope() -> Check {
    judge_ptrace_scope(number("/proc/sys/kernel/yama/ptrace_scope"), has(CapabilitySet::SYS_PTRACE))
}

fn judge_ptrace_scope(scope: Option<i64>, ptrace: bool) -> Check {
    let check =
        |status, value: String| Check::new("ptrace_scope", "files and maps of targets", status, value);
    match scope {
        None => check(Status::Ok, "Yama is not active".into()),
        Some(scope) if scope <= 0 => check(Status::Ok, scope.to_string()),
        Some(scope) if ptrace => check(Status::Ok, format!("{scope} (moot with cap_sys_ptrace)")),
        Some(scope) => check(Status::Warn, format!("{scope}, and cap_sys_ptrace is missing"))
            .fixed_by("grant cap_sys_ptrace, or `sysctl -w kernel.yama.ptrace_scope=0`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_makes_its_sysctl_irrelevant() {
        assert_eq!(paranoid(Some(4), true).status, Status::Ok);
        assert_eq!(paranoid(Some(2), false).status, Status::Warn);
        assert_eq!(paranoid(Some(-1), false).status, Status::Ok);
        assert_eq!(paranoid(None, true).status, Status::Fail);
        assert_eq!(unprivileged_bpf(Some(2), true).status, Status::Ok);
        assert_eq!(unprivileged_bpf(Some(0), false).status, Status::Warn);
        assert_eq!(locked_memory(Some(0), true).status, Status::Ok);
        assert_eq!(locked_memory(Some(0), false).status, Status::Warn);
        assert_eq!(judge_ptrace_scope(Some(3), true).status, Status::Ok);
        assert_eq!(judge_ptrace_scope(Some(1), false).status, Status::Warn);
        assert_eq!(judge_ptrace_scope(None, false).status, Status::Ok);
    }

    #[test]
    fn a_rate_limit_below_the_default_is_a_warning() {
        assert_eq!(max_sample_rate(Some(98)).status, Status::Warn);
        assert_eq!(max_sample_rate(Some(99)).status, Status::Ok);
        assert_eq!(max_sample_rate(None).status, Status::Warn);
    }

    #[test]
    fn hidden_addresses_are_a_warning_with_a_fix() {
        let hidden = judge_kallsyms(Ok(false), Some(1));
        assert_eq!(
            (hidden.status, hidden.value.as_str()),
            (Status::Warn, "addresses hidden; kptr_restrict 1")
        );
        assert!(hidden.fix.is_some_and(|fix| fix.contains("cap_syslog")));
        let fix = |kptr_restrict| judge_kallsyms(Ok(false), Some(kptr_restrict)).fix.unwrap();
        assert!(fix(1).contains("kptr_restrict=0"));
        assert!(fix(0).contains("perf_event_paranoid=1") && !fix(0).contains("kptr_restrict"));
        assert!(fix(2).contains("kptr_restrict=1"));
        assert_eq!(judge_kallsyms(Ok(true), None).status, Status::Ok);
        assert_eq!(judge_kallsyms(Err("x".into()), None).status, Status::Warn);
    }
}
