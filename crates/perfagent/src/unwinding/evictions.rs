//! What is told of tables that left the kernel for others, and of those that found no room.

use crate::{Warning, WarningKind};

/// Counts evictions.
#[derive(Default)]
pub(super) struct Evictions(u64);

impl Evictions {
    /// The table of a file left.
    pub(super) fn add(&mut self) {
        self.0 += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.0
    }

    /// Tells what left, and what is out at the end though samples needed it: paths of files, and how many samples.
    pub(super) fn warning<'a>(&self, out: impl Iterator<Item = (&'a str, u64)>) -> Option<Warning> {
        let mut out: Vec<(&str, u64)> = out.collect();
        if self.0 == 0 && out.is_empty() {
            return None;
        }
        out.sort_by_key(|(path, hits)| (std::cmp::Reverse(*hits), *path));
        let left = match self.0 {
            0 => "the memory for unwind tables is full".to_owned(),
            1 => "the memory for unwind tables was full, and 1 table left it for another one".to_owned(),
            count => {
                format!("the memory for unwind tables was full, and {count} times a table left it for others")
            }
        };
        let rest = match out.as_slice() {
            [] => "; each that was needed is there again".to_owned(),
            [(path, _)] => format!("; that of {path} is missing at the end"),
            [(path, _), others @ ..] => {
                format!("; those of {path} and {} other files are missing at the end", others.len())
            }
        };
        let hint = "raise --table-memory, or profile fewer processes at a time";
        Some(Warning::new(WarningKind::Tables, left + &rest, hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_what_left_and_what_is_out() {
        let mut evictions = Evictions::default();
        let told = |evictions: &Evictions, out: &[(&str, u64)]| {
            evictions.warning(out.iter().copied()).map(|warning| warning.message)
        };
        assert_eq!(told(&evictions, &[]), None);
        let message = "the memory for unwind tables is full; that of /lib/a.so is missing at the end";
        assert_eq!(told(&evictions, &[("/lib/a.so", 7)]).unwrap(), message);
        (0..3).for_each(|_| evictions.add());
        let message = "the memory for unwind tables was full, and 3 times a table left it for others; each that was needed is there again";
        assert_eq!(told(&evictions, &[]).unwrap(), message);
        let out = [("/lib/a.so", 7), ("/lib/b.so", 9), ("/lib/c.so", 1)];
        assert!(
            told(&evictions, &out)
                .unwrap()
                .ends_with("those of /lib/b.so and 2 other files are missing at the end")
        );
    }
}
