//! Walks of user stacks by how they ended.

use recording::{Counters, WalkEnd};

use crate::figures::{add, percent, sum};

/// Walks, or their time, by their end, in the order of [`WalkEnd::WALKS`].
pub(super) type Walks = [u64; WalkEnd::WALKS.len()];

/// Adds samples to the walks with an end, or to those without a walk.
pub(super) fn add_end(walks: &mut Walks, no_user_stack: &mut u64, end: WalkEnd, samples: u64) {
    match WalkEnd::WALKS.iter().position(|(_, walk)| *walk == end) {
        Some(position) => add(&mut walks[position], samples),
        None => add(no_user_stack, samples),
    }
}

/// Walks, and samples without a walk, by number of [`WalkEnd`].
pub(super) fn by_end(ends: &[u64; WalkEnd::ALL.len()]) -> (Walks, u64) {
    let (mut walks, mut no_user_stack) = (Walks::default(), 0);
    for (end, count) in WalkEnd::ALL.into_iter().zip(ends) {
        add_end(&mut walks, &mut no_user_stack, end, *count);
    }
    (walks, no_user_stack)
}

/// See [`by_end`].
pub(super) fn of_counters(counters: &Counters) -> (Walks, u64) {
    by_end(&counters.walks)
}

/// The time of walks if it is known, else their number.
pub(super) fn weighted<'w>(walks: &'w Walks, walk_ns: &'w Walks) -> &'w Walks {
    if sum(*walk_ns) > 0 { walk_ns } else { walks }
}

/// Walks that reached the outermost frame, in percent of all; `None` if there was no walk.
pub(super) fn rooted_pct(walks: &Walks) -> Option<f64> {
    percent(walks[0], sum(*walks))
}
