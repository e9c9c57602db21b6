//! Which files of programs are not used, or not wholly, and why: some are told, the others are counted.

use std::collections::{HashMap, HashSet};

use crate::request::ProgramId;

/// So many are told.
const MAX_TOLD: usize = 8;

/// The shortfalls of an interval.
#[derive(Default)]
pub(super) struct Shortfalls {
    told: HashMap<ProgramId, String>,
    /// Programs with shortfalls that are not told.
    untold: HashSet<ProgramId>,
}

impl Shortfalls {
    pub(super) fn tell(&mut self, id: ProgramId, shortfall: String) {
        if self.told.len() < MAX_TOLD || self.told.contains_key(&id) {
            self.untold.remove(&id);
            self.told.insert(id, shortfall);
        } else {
            self.untold.insert(id);
        }
    }

    /// The file of a program is used now.
    pub(super) fn forget(&mut self, id: ProgramId) {
        self.told.remove(&id);
        self.untold.remove(&id);
    }

    /// All of them, one line each. `files`: what they are called.
    pub(super) fn take(&mut self, files: &str) -> Vec<String> {
        let mut told: Vec<_> = std::mem::take(&mut self.told).into_values().collect();
        told.sort();
        let untold = std::mem::take(&mut self.untold).len();
        if untold > 0 {
            told.push(format!("{files} of {untold} more programs are not used, or not wholly"));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortfalls_that_are_not_told_are_counted() {
        let mut shortfalls = Shortfalls::default();
        let last = i64::try_from(MAX_TOLD).unwrap() + 2;
        for number in (0..last).chain(0..last) {
            shortfalls.tell(ProgramId { pid: 7, began_ns: number }, format!("map {number}"));
        }
        let told = shortfalls.take("perf maps");
        assert_eq!(told.len(), MAX_TOLD + 1);
        assert!(told[MAX_TOLD].contains("perf maps of 2 more programs"), "{told:?}");
        assert!(shortfalls.take("perf maps").is_empty());
    }
}
