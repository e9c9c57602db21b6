//! What validation knows about the machine. Read once, so that tests can put something else in its place.

use std::ffi::OsString;
use std::path::Path;

/// The kernel's default, for machines where the limit cannot be read.
const DEFAULT_MAX_SAMPLE_RATE: u32 = 100_000;

/// Where programs are looked for if there is no `PATH`, as in execvp(3).
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
            online_cpus: std::fs::read_to_string(Path::new("/sys/devices/system/cpu/online"))
                .ok()
                .and_then(|text| parse_cpu_list(&text)),
            path: search_path(),
        }
    }
}

/// Where commands are looked up.
pub(super) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// `0-3,8`, as the kernel writes sets of CPUs.
fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        for text in ["", "x", "3-1", "0-4294967295", "1,"] {
            assert_eq!(parse_cpu_list(text), None, "{text:?}");
        }
    }
}
