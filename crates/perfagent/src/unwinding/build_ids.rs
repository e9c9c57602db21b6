//! The files whose table is in the kernel, by build-id: copies of a file are found at once, however many files there are.

use std::collections::{HashMap, HashSet};

use profile::BuildId;

/// Numbers of files by build-id.
#[derive(Default)]
pub(super) struct BuildIds(HashMap<BuildId, HashSet<u64>>);

impl BuildIds {
    /// The table of a file is in the kernel.
    pub(super) fn add(&mut self, build_id: Option<&BuildId>, number: u64) {
        if let Some(build_id) = build_id {
            self.0.entry(build_id.clone()).or_default().insert(number);
        }
    }

    /// It is no more.
    pub(super) fn remove(&mut self, build_id: Option<&BuildId>, number: u64) {
        let Some(build_id) = build_id else { return };
        if let Some(numbers) = self.0.get_mut(build_id) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.0.remove(build_id);
            }
        }
    }

    /// The files with this build-id. None without one: files without a build-id have nothing in common.
    pub(super) fn with(&self, build_id: Option<&BuildId>) -> impl Iterator<Item = u64> {
        build_id.and_then(|build_id| self.0.get(build_id)).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_an_equal_build_id_are_found_and_nothing_is_kept_of_those_that_left() {
        let id = |byte: u8| BuildId::try_from(vec![byte; 20]).unwrap();
        let mut all = BuildIds::default();
        let (one, other) = (id(1), id(2));
        all.add(Some(&one), 1);
        all.add(Some(&one), 2);
        all.add(Some(&other), 3);
        all.add(None, 4);
        let mut found: Vec<u64> = all.with(Some(&one)).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        assert_eq!(all.with(None).count(), 0);
        all.remove(Some(&one), 1);
        all.remove(Some(&one), 2);
        all.remove(None, 4);
        assert_eq!((all.with(Some(&one)).count(), all.0.len()), (0, 1));
    }
}
