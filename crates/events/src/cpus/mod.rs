//! Which CPUs are online.

use std::fs::File;
use std::io::{self, Read};

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

/// `0-3,5,8-9`
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
        for text in ["", "\n", "a", "0-", "-1", "3-1", "0,,1", "1,0", "0-4294967295", "0-65536", "0-3,2"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
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
    }
}
