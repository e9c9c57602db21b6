//! Processes that are never switched, whoever asks for it.

use std::collections::HashSet;

/// Processes between perf-agent and the first one that are looked for.
const MAX_ANCESTORS: usize = 256;

/// perf-agent itself and the processes that it descends from: one of these may wait for perf-agent.
pub(super) fn own_line() -> HashSet<u32> {
    let parent = |pid: &u32| process::task::stat(*pid).ok().map(|stat| stat.parent).filter(|pid| *pid != 0);
    std::iter::successors(Some(std::process::id()), parent).take(MAX_ANCESTORS).collect()
}

/// The first process of the machine or of a container: it is switched only if it was named.
pub(super) const FIRST: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_line_begins_here_and_goes_up() {
        let line = own_line();
        assert!(line.contains(&std::process::id()));
        assert!(line.contains(&std::os::unix::process::parent_id()));
        assert!(!line.contains(&0));
    }
}
