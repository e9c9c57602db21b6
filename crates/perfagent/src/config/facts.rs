//! The facts about the machine that validation uses. They are read once, so that tests can replace them.

use std::ffi::OsString;

/// The kernel's default, used if the limit cannot be read.
const DEFAULT_MAX_SAMPLE_RATE: u32 = 100_000;

/// The search path if there is no `PATH`, as in execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Facts about the machine.
pub(super) struct Facts {
    /// `kernel.perf_event_max_sample_rate`.
    pub(super) max_sample_rate: u32,
    /// Online CPUs; none if unknown.
    pub(super) online_cpus: Option<Vec<u32>>,
    /// `PATH`.
    pub(super) path: OsString,
}

impl Facts {
    pub(super) fn read() -> Self {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            max_sample_rate: number("/proc/sys/kernel/perf_event_max_sample_rate")
                .unwrap_or(DEFAULT_MAX_SAMPLE_RATE),
            online_cpus: events::online_cpus().ok(),
            path: search_path(),
        }
    }
}

/// The search path for commands.
pub(super) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}
