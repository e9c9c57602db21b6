//! Resource usage of this process, its limit of open files, and the page size.

use std::io;
use std::time::Duration;

/// Resources used so far by all threads of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode.
    pub system: Duration,
    /// Largest resident set so far.
    pub peak_rss_bytes: u64,
}

/// Reads [`Usage`].
///
/// # Errors
/// The errno of `getrusage(2)`.
pub fn usage() -> io::Result<Usage> {
    usage_of(libc::RUSAGE_SELF)
}

/// Reads [`Usage`] of all child processes that have ended and were waited for.
///
/// # Errors
/// The errno of `getrusage(2)`.
pub fn usage_of_children() -> io::Result<Usage> {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(whom: libc::c_int) -> io::Result<Usage> {
    // SAFETY: all zero is a valid `rusage`.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` is writable and of the right type.
    if unsafe { libc::getrusage(whom, &raw mut raw) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    Ok(Usage {
        user: duration(raw.ru_utime),
        system: duration(raw.ru_stime),
        peak_rss_bytes: raw.ru_maxrss.unsigned_abs().saturating_mul(1024),
    })
}

/// Raises the soft limit of open files to the hard limit. Returns the limit in force, also after a failure.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return limit.maximum.unwrap_or(u64::MAX);
        }
    }
    limit.current.unwrap_or(u64::MAX)
}

/// The size of a memory page in bytes.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: takes and returns numbers only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// The resident set of this process in bytes; none if /proc does not say.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_and_memory_is_reported() {
        let before = usage().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let after = loop {
            let now = usage().unwrap();
            if now.user + now.system > before.user + before.system {
                break now;
            }
            assert!(std::time::Instant::now() < deadline, "{now:?}, {before:?}");
        };
        assert!(after.peak_rss_bytes > 1 << 20);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        let limit = raise_open_files();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let fields: Vec<_> = line.split_whitespace().collect();
        assert_eq!(fields[3], fields[4]);
        assert_eq!(fields[3].parse::<u64>().unwrap(), limit);
    }
}
