//! Which tables stay in the kernel though no recorded process maps their file at the moment. A build runs the same compilers and shells
//! again and again; with its tables there, such a process is walked in the kernel from its first mapping on. The kernel memory for that
//! is bounded, and so is the time.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// How long an unused table stays.
const KEPT: Duration = Duration::from_secs(30);
/// Kernel memory of all unused tables.
const MAX_BYTES: usize = 24 << 20;
/// Their number: each keeps its file open.
const MAX_FILES: usize = 256;

/// A file that no recorded process maps.
pub(super) struct Unused {
    /// The number of the file.
    pub(super) number: u64,
    pub(super) since: Instant,
    /// Of its table. `None`: there is none that would be worth keeping.
    pub(super) bytes: Option<usize>,
}

/// The numbers of the files that are given up. Of those that stay, none was used earlier than one that does not fit.
pub(super) fn no_longer_kept(mut unused: Vec<Unused>, now: Instant) -> Vec<u64> {
    unused.sort_unstable_by_key(|one| (Reverse(one.since), one.number));
    let (mut files, mut bytes) = (0, 0);
    unused.retain(|one| {
        let is_young = now.saturating_duration_since(one.since) < KEPT;
        let Some(own) = one.bytes.filter(|_| is_young) else { return true };
        files += 1;
        bytes += own;
        files > MAX_FILES || bytes > MAX_BYTES
    });
    unused.into_iter().map(|one| one.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_stays_as_long_as_there_is_room() {
        let now = Instant::now() + 2 * KEPT;
        let unused = |number: u64, seconds: u64, bytes: Option<usize>| Unused {
            number,
            since: now - Duration::from_secs(seconds),
            bytes,
        };
        let given_up = |unused: Vec<Unused>| no_longer_kept(unused, now);
        let third = Some(MAX_BYTES / 3);
        let all =
            || vec![unused(1, 29, third), unused(2, 10, third), unused(3, 0, third), unused(4, 0, None)];
        assert_eq!(given_up(all()), [4]);
        assert_eq!(given_up(all().into_iter().chain([unused(5, 30, Some(1))]).collect()), [4, 5]);
        assert_eq!(given_up(all().into_iter().chain([unused(5, 5, third)]).collect()), [4, 1]);
        let many = (0..2 * MAX_FILES as u64).map(|number| unused(number, number / 64, Some(1)));
        assert_eq!(given_up(many.collect()).len(), MAX_FILES);
    }
}
