//! Who has made a probe: process and the time of its start, which together are unique until the next boot.

use std::fs;

/// The time since boot at which a process began, in ticks. `None` if there is none with this number.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process may contain anything.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}
