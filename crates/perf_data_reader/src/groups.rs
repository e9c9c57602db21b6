//! Samples of the members of a group whose leader alone samples (`perf record -e '{a,b}:S'`).
//!
//! Each sample of the leader has the total counts of all members. The difference to the sample before is a sample of the member at the same
//! place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::attr::{Attr, Attrs};
use crate::budget::{Budget, Full};
use crate::sample::Sample;

/// Bytes of a count in the table.
const ENTRY: usize = 64;

/// The last count of each counter.
#[derive(Default)]
pub(crate) struct Groups {
    /// By the id of a counter and, where children have counts of their own, the thread.
    counts: HashMap<(u64, i32), u64>,
    /// Counts that are smaller than before.
    pub(crate) shrunk: u64,
    /// Counts of no event that the file lists.
    pub(crate) of_no_event: u64,
}

impl Groups {
    /// Whether a sample stands for all members of its group.
    pub(crate) fn has_members(attrs: &Attrs, sample: &Sample<'_>) -> bool {
        let samples_not = |id: u64| attrs.of_id(id).is_some_and(|(_, attr)| !attr.samples_itself());
        sample.counts().any(|(id, _)| samples_not(id))
    }

    /// The events whose counts grew since their last sample, with the difference.
    pub(crate) fn added(
        &mut self,
        attrs: &Attrs,
        attr: &Attr,
        sample: &Sample<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<(usize, u64)>, Full> {
        let mut added = Vec::new();
        let thread = if attr.counts_each_thread() { sample.tid } else { 0 };
        for (id, count) in sample.counts() {
            let Some((event, _)) = attrs.of_id(id) else {
                self.of_no_event += 1;
                continue;
            };
            let before = match self.counts.entry((id, thread)) {
                Entry::Occupied(mut known) => known.insert(count),
                Entry::Vacant(new) => {
                    budget.charge(ENTRY)?;
                    new.insert(count);
                    0
                }
            };
            match count.checked_sub(before) {
                Some(0) => {}
                Some(more) => added.push((event, more)),
                None => self.shrunk += 1,
            }
        }
        Ok(added)
    }
}
