//! CPUs that come and go: which are online, and what is open on each.
//!
//! The kernel ends the events of a CPU that goes offline: they keep what they counted, and nothing brings them back with the
//! CPU. So whatever is open on CPUs is held by [`PerCpu`] and follows what [`Present`] says of a moment; what that changed is
//! [`Followed`].

mod per_cpu;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

pub(crate) use self::per_cpu::PerCpu;
use crate::Error;

const PATH: &str = "/sys/devices/system/cpu/online";
/// Far more than any kernel is built for.
const MAX_CPU: u32 = 1 << 16;
const MAX_BYTES: u64 = 1 << 16;

/// The numbers of all CPUs that are online now.
///
/// # Errors
/// [`Error::Cpus`] if the kernel's list cannot be read or understood.
pub fn online_cpus() -> Result<Vec<u32>, Error> {
    let mut text = String::new();
    let read = File::open(PATH).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.and_then(|_| {
        parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a list of CPUs"))
    })
    .map_err(|source| Error::Cpus { path: PATH, source })
}

/// The CPUs at a moment, for all that follow them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Those that are online.
    pub online: Vec<u32>,
    /// Those of which it is known that they were offline since their events were opened, though they may be online again: what
    /// [`SideBand::ended`](crate::SideBand::ended) says.
    pub ended: Vec<u32>,
}

impl Present {
    /// The same for those only who want no more than some CPUs.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let online = self.online.iter().copied().filter(|&cpu| wanted(cpu)).collect();
        Self { online, ended: self.ended.clone() }
    }
}

/// What has changed by following CPUs. Each CPU stands for itself: a failure on one holds up no other.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Followed {
    /// CPUs on which something was closed, because they had gone, for a moment at least.
    pub closed: Vec<u32>,
    /// CPUs on which something was opened.
    pub opened: Vec<u32>,
    /// CPUs on which something was to be opened and was not: why, or nothing if the kernel says that they are offline. They
    /// are tried again the next time.
    pub missing: Vec<(u32, Option<Error>)>,
}

/// CPUs in ascending order as the kernel writes them: `0-3,5,8-9`.
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

/// What [`cpu_list`] makes.
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
    fn reads_lists_and_ranges() {
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
    fn who_wants_some_cpus_still_hears_of_all_that_have_gone() {
        let now = Present { online: vec![0, 2, 3], ended: vec![1, 3] };
        assert_eq!(now.only(|cpu| cpu > 2), Present { online: vec![3], ended: vec![1, 3] });
    }

    #[test]
    fn this_machine_has_some() {
        let cpus = online_cpus().unwrap();
        assert!(cpus.len() >= std::thread::available_parallelism().unwrap().get());
    }

    proptest! {
        #[test]
        fn any_text_is_stood(text in "[0-9,\\- ]{0,40}") {
            if let Some(cpus) = parse(&text) {
                prop_assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }

        #[test]
        fn lists_are_read_as_they_were_written(cpus in proptest::collection::btree_set(0..200u32, 1..100)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&cpu_list(&cpus)), Some(cpus));
        }
    }
}
