//! Where a capture is taken, in words.

use recording::Origin;

use crate::{Config, Targets};

/// Processes that are named.
const NAMED: usize = 3;

/// The machine and the target. `pids`: the processes that were given as targets.
pub(super) fn origin(config: &Config, pids: &[u32]) -> Origin {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let target = match &config.targets {
        Targets::Pids(_) => processes(pids, |pid| process::task::comm(pid).unwrap_or_default()),
        Targets::System => "system-wide".to_owned(),
        Targets::Command(program) => format!("command {}", program.to_string_lossy()),
    };
    Origin { host: host.trim().to_owned(), target }
}

fn processes(pids: &[u32], comm: impl Fn(u32) -> String) -> String {
    let one = |pid: &u32| match comm(*pid) {
        name if name.is_empty() => format!("pid {pid}"),
        name => format!("pid {pid} ({name})"),
    };
    let named: Vec<String> = pids.iter().take(NAMED).map(one).collect();
    let more = pids.len().saturating_sub(NAMED);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processes_are_named() {
        let comm = |pid| if pid == 2 { String::new() } else { format!("p{pid}") };
        assert_eq!(processes(&[1, 2], comm), "pid 1 (p1), pid 2");
        assert_eq!(processes(&[1, 2, 3, 4, 5], comm), "pid 1 (p1), pid 2, pid 3 (p3) and 2 more");
        assert_eq!(processes(&[], comm), "");
    }
}
