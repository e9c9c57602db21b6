//! CPUs that go offline and come back: the CPUs that are online, and what a program has open on each.
//!
//! The kernel ends the events of a CPU that goes offline. They keep their counts, and do not start again with the CPU.
//! [`PerCpu`] therefore holds everything that is open on CPUs and follows [`Present`], the state at a moment;
//! [`Followed`] is the result.

mod per_cpu;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

pub(crate) use self::per_cpu::PerCpu;
use crate::Error;

const PATH: &str = "/sys/devices/system/cpu/online";
/// Above the limit of any kernel.
const MAX_CPU: u32 = 1 << 16;
const MAX_BYTES: u64 = 1 << 16;

/// The numbers of all CPUs that are online now.
///
/// # Errors
/// [`Error::Cpus`] if the kernel's list cannot be read or parsed.
pub fn online_cpus() -> Result<Vec<u32>, Error> {
    let mut text = String::new();
    let read = File::open(PATH).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.and_then(|_| {
        parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a list of CPUs"))
    })
    .map_err(|source| Error::Cpus { path: PATH, source })
}

/// The state of the CPUs at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The CPUs that are online.
    pub online: Vec<u32>,
    /// The CPUs that were offline at some time since their events were opened, even if they are online again: the
    /// result of [`SideBand::ended`](crate::SideBand::ended).
    pub ended: Vec<u32>,
}

impl Present {
    /// The same state, restricted to some online CPUs.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let online = self.online.iter().copied().filter(|&cpu| wanted(cpu)).collect();
        Self { online, ended: self.ended.clone() }
    }
}

/// The changes of a [`Present`]. A failure on one CPU does not affect the others.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Followed {
    /// CPUs on which something was closed, because they were offline for at least a moment.
    pub closed: Vec<u32>,
    /// CPUs on which something was opened.
    pub opened: Vec<u32>,
    /// CPUs on which opening failed: the error, or none if the kernel says that the CPU is offline. The next attempt
    /// includes them.
    pub missing: Vec<(u32, Option<Error>)>,
}

/// CPUs in ascending order, as the kernel writes them: `0-3,5,8-9`.
#[must_use]
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut text = String::new();
    for range in cpus.chunk_by(|&one, &next| one.checked_add(1) == Some(next)) {
        let comma = if text.is_empty() { "" } else { "," };
        let (first, last) = (range[0], range[range.len() - 1]);
        // Writing to a string does not fail.
        let _ = if first == last {
            write!(text, "{comma}{first}")
        } else {
            write!(text, "{comma}{first}-{last}")
        };
    }
    text
}

/// Parses the format of [`cpu_list`].
fn parse(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim_end().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let ascending = cpus.last().is_none_or(|&before| before < first);
        if first > last || last >= MAX_CPU || !ascending {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_ranges_are_parsed() {
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse("0-3,5,8-9\n"), Some(vec![0, 1, 2, 3, 5, 8, 9]));
        assert_eq!(parse("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(cpu_list(&[0, 1, 2, 3, 5, 8, 9]), "0-3,5,8-9");
        assert_eq!(cpu_list(&[]), "");
        for text in
            ["", "\n", "a", "x", "1,", "0-", "-1", "3-1", "0,,1", "1,0", "0-4294967295", "0-65536", "0-3,2"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_restricted_state_still_has_all_ended_cpus() {
        let now = Present { online: vec![0, 2, 3], ended: vec![1, 3] };
        assert_eq!(now.only(|cpu| cpu > 2), Present { online: vec![3], ended: vec![1, 3] });
    }

    #[test]
    fn this_machine_has_cpus() {
        let cpus = online_cpus().unwrap();
        assert!(cpus.len() >= std::thread::available_parallelism().unwrap().get());
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "[0-9,\\- ]{0,40}") {
            if let Some(cpus) = parse(&text) {
                prop_assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }

        #[test]
        fn a_written_list_is_read_back(cpus in proptest::collection::btree_set(0..200u32, 1..100)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&cpu_list(&cpus)), Some(cpus));
        }
    }
}
