//! Which tables leave the kernel's memory so that others find room. A pure plan: what finds room is asked of a [`Room`], which judges by the
//! allocation that the kernel side would make.
//!
//! A table leaves for another one if no process uses it, or if no walk has used it for a while and none has since the other one was
//! needed; of these, those that were used longest ago leave first. A process has a quota: half of the memory. Tables that only processes
//! beyond their quota use leave before all others, also those in use; and what only such processes need makes none but them leave, after
//! everybody else was served. Among equals, what most samples need is served first.
//!
//! Several processes within their quota may keep all memory in use. Then tables in use leave too, if each process that uses them has more
//! than the process in need would have with what it needs. So one among n processes has at least the nth part of the memory, if it needs as
//! much now. Nothing goes back and forth: what left cannot make that leave for which it left.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A table that no walk has used for so many epochs is idle.
const IDLE: u32 = 2;
/// Tries of one plan that may fail: each looks through all free pieces of the memory.
const MAX_FAILURES: usize = 256;

/// A table in the kernel.
pub(super) struct Held<'a> {
    /// The last epoch in which it was used.
    pub(super) used: u32,
    pub(super) bytes: usize,
    /// Processes, by file: copies of a file share a table.
    pub(super) users: Vec<&'a HashSet<u32>>,
}

/// A table, or a list of mappings, for which there was no room.
pub(super) struct Need<'a> {
    /// The last epoch in which it was needed.
    pub(super) needed: u32,
    /// Samples that needed it.
    pub(super) hits: u64,
    pub(super) bytes: usize,
    /// Processes that need it.
    pub(super) users: &'a HashSet<u32>,
}

/// The memory, as it would be after what was tried.
pub(super) trait Room: Clone {
    /// As if a table had left: an index into the tables of the plan.
    fn free(&mut self, held: usize);
    /// Takes the room of a need, by its index. False: there is none.
    fn take(&mut self, need: usize) -> bool;
    /// Whether there may be room for it: a look at the sizes alone.
    fn may_take(&self, need: usize) -> bool;
}

/// What each process has of the memory.
#[derive(Clone)]
pub(super) struct Shares<F> {
    /// Computes it.
    of: F,
    quota: usize,
    known: HashMap<u32, usize>,
}

impl<F: Fn(u32) -> usize> Shares<F> {
    /// `of`: the bytes of all tables that a process uses.
    pub(super) fn new(quota: usize, of: F) -> Self {
        Self { of, quota, known: HashMap::new() }
    }

    fn share(&mut self, pid: u32) -> &mut usize {
        self.known.entry(pid).or_insert_with(|| (self.of)(pid))
    }

    /// Whether only processes use it that would be beyond their quota with `more` bytes.
    fn are_large<'a>(&mut self, mut users: impl Iterator<Item = &'a u32>, more: usize) -> bool {
        users.all(|pid| *self.share(*pid) + more > self.quota)
    }

    /// What the process with the least of them has. None: there is no process.
    fn least<'a>(&mut self, users: impl Iterator<Item = &'a u32>) -> Option<usize> {
        users.map(|pid| *self.share(*pid)).min()
    }

    fn gets(&mut self, need: &Need<'_>) {
        need.users.iter().for_each(|pid| *self.share(*pid) += need.bytes);
    }

    fn leaves(&mut self, held: &Held<'_>) {
        for pid in held.users.iter().copied().flatten() {
            let share = self.share(*pid);
            *share = share.saturating_sub(held.bytes);
        }
    }
}

/// What is to be done, by index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Needs for which there is room now.
    pub(super) fit: Vec<usize>,
    /// Tables that leave.
    pub(super) leave: Vec<usize>,
    /// Needs for which no room can be made.
    pub(super) stay_out: Vec<usize>,
}

/// Makes the plan. `now`: the room that there is; `soon`: with what has left before and will be free in a moment. `epoch`: the present one.
pub(super) fn plan<R: Room, F: Fn(u32) -> usize + Clone>(
    (held, needs): (&[Held<'_>], &[Need<'_>]),
    mut shares: Shares<F>,
    epoch: u32,
    (mut now, mut soon): (R, R),
) -> Plan {
    let mut large: Vec<bool> = Vec::with_capacity(needs.len());
    large.extend(needs.iter().map(|need| shares.are_large(need.users.iter(), need.bytes)));
    let mut served: Vec<usize> = (0..needs.len()).collect();
    served.sort_by_key(|at| (large[*at], Reverse(needs[*at].hits), *at));
    let mut oldest: Vec<usize> = (0..held.len()).collect();
    oldest.sort_by_key(|at| (held[*at].used, *at));
    let mut largest = oldest.clone();
    largest.sort_by_key(|at| Reverse(shares.least(held[*at].users.iter().copied().flatten())));
    let mut has_left = vec![false; held.len()];
    let mut failures = 0;
    let mut plan = Plan::default();
    for need in served {
        if now.take(need) {
            soon.take(need);
            shares.gets(&needs[need]);
            plan.fit.push(need);
            continue;
        }
        if soon.take(need) {
            shares.gets(&needs[need]);
            continue;
        }
        let (mut trial, mut trial_shares, mut trial_left) = (soon.clone(), shares.clone(), has_left.clone());
        let mut leave = Vec::new();
        let may_leave = |at: usize, class: Class, shares: &mut Shares<F>| {
            let one = &held[at];
            let is_idle = one.used.saturating_add(IDLE) <= epoch && one.used < needs[need].needed;
            match class {
                Class::Unused => one.users.iter().all(|users| users.is_empty()),
                Class::OfLarge => {
                    (!large[need] || is_idle) && shares.are_large(one.users.iter().copied().flatten(), 0)
                }
                Class::Idle => !large[need] && is_idle,
                Class::OfLarger => {
                    let is_urgent = needs[need].needed.saturating_add(IDLE) > epoch;
                    let other = shares.least(one.users.iter().copied().flatten());
                    let own = shares.least(needs[need].users.iter());
                    !large[need] && is_urgent && own.is_some_and(|own| Some(own + needs[need].bytes) < other)
                }
            }
        };
        let mut fits = false;
        'all: for class in [Class::Unused, Class::OfLarge, Class::Idle, Class::OfLarger] {
            for at in if matches!(class, Class::OfLarger) { &largest } else { &oldest } {
                if trial_left[*at] || !may_leave(*at, class, &mut trial_shares) {
                    continue;
                }
                trial_left[*at] = true;
                trial.free(*at);
                trial_shares.leaves(&held[*at]);
                leave.push(*at);
                if failures < MAX_FAILURES && trial.may_take(need) {
                    fits = trial.take(need);
                    if fits {
                        break 'all;
                    }
                    failures += 1;
                }
            }
        }
        if fits {
            plan.leave.append(&mut leave);
            (soon, shares, has_left) = (trial, trial_shares, trial_left);
            shares.gets(&needs[need]);
        } else {
            plan.stay_out.push(need);
        }
    }
    plan
}

/// Why a table may leave, in the order in which they do.
#[derive(Clone, Copy)]
enum Class {
    Unused,
    OfLarge,
    Idle,
    OfLarger,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which only the number of bytes counts.
    #[derive(Clone)]
    struct Bytes<'a> {
        free: usize,
        held: &'a [Held<'a>],
        needs: &'a [Need<'a>],
    }

    impl Room for Bytes<'_> {
        fn free(&mut self, held: usize) {
            self.free += self.held[held].bytes;
        }

        fn take(&mut self, need: usize) -> bool {
            let fits = self.may_take(need);
            self.free -= if fits { self.needs[need].bytes } else { 0 };
            fits
        }

        fn may_take(&self, need: usize) -> bool {
            self.needs[need].bytes <= self.free
        }
    }

    /// In a memory of 100 bytes, in epoch 10.
    fn planned(held: &[Held<'_>], needs: &[Need<'_>], free_soon: usize) -> Plan {
        let taken: usize = held.iter().map(|held| held.bytes).sum();
        let now = Bytes { free: 100 - taken - free_soon, held, needs };
        let soon = Bytes { free: 100 - taken, ..now.clone() };
        let share = |pid: u32| {
            let own = held.iter().filter(|held| held.users.iter().any(|users| users.contains(&pid)));
            own.map(|held| held.bytes).sum()
        };
        plan((held, needs), Shares::new(50, share), 10, (now, soon))
    }

    fn held<'a>(bytes: usize, used: u32, users: &[&'a HashSet<u32>]) -> Held<'a> {
        Held { used, bytes, users: users.to_vec() }
    }

    fn need(bytes: usize, needed: u32, hits: u64, users: &HashSet<u32>) -> Need<'_> {
        Need { needed, hits, bytes, users }
    }

    #[test]
    fn what_fits_leaves_everything_in_its_place_and_what_will_fit_waits() {
        let [a, b] = [1, 2].map(|pid| HashSet::from([pid]));
        let all = [held(40, 1, &[&a]), held(20, 2, &[&b])];
        let needs = [need(10, 10, 1, &b), need(25, 10, 7, &a), need(4, 10, 3, &b)];
        let plan = planned(&all, &needs, 25);
        assert_eq!(plan, Plan { fit: vec![2, 0], ..Plan::default() });
    }

    #[test]
    fn what_was_used_longest_ago_leaves_first_and_nothing_that_is_in_use() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|pid| HashSet::from([pid]));
        let all = [held(30, 9, &[&a]), held(25, 4, &[&b]), held(20, 3, &[&b]), held(25, 9, &[&c])];
        let leave = |bytes: usize| planned(&all, &[need(bytes, 10, 1, &d)], 0).leave;
        assert_eq!((leave(15), leave(40)), (vec![2], vec![2, 1]));
        let plan = planned(&all, &[need(50, 10, 1, &d)], 0);
        assert_eq!((plan.leave, plan.stay_out), (vec![], vec![0]), "the rest was used in the last epoch");
    }

    #[test]
    fn a_table_stays_that_was_used_since_the_other_one_was_needed() {
        let [a, b, c] = [1, 2, 3].map(|pid| HashSet::from([pid]));
        let all = [held(45, 4, &[&a]), held(45, 6, &[&c])];
        assert_eq!(planned(&all, &[need(40, 4, 9, &b)], 0).stay_out, [0]);
        assert_eq!(planned(&all, &[need(40, 5, 9, &b)], 0).leave, [0]);
    }

    #[test]
    fn what_nobody_uses_leaves_before_all_others() {
        let (a, b, nobody) = (HashSet::from([1]), HashSet::from([2]), HashSet::new());
        let all = [held(40, 1, &[&a]), held(40, 10, &[&nobody, &nobody]), held(20, 1, &[&nobody, &b])];
        assert_eq!(planned(&all, &[need(30, 10, 1, &b)], 0).leave, [1]);
    }

    #[test]
    fn a_process_beyond_its_quota_gives_way_down_to_it_and_is_served_last() {
        let [large, small, both] = [vec![1], vec![2], vec![1, 2]].map(HashSet::from_iter);
        // In use, all of them. The second is used by both.
        let all = [
            held(30, 10, &[&large]),
            held(10, 10, &[&both]),
            held(35, 10, &[&large]),
            held(20, 10, &[&small]),
        ];
        let plan = planned(&all, &[need(20, 10, 500, &large), need(20, 10, 1, &small)], 0);
        assert_eq!(plan, Plan { leave: vec![0], stay_out: vec![0], ..Plan::default() });
        // With 45 bytes it is within its quota, and would have less than the other one.
        let other = HashSet::from([3]);
        let plan = planned(&all, &[need(46, 10, 1, &other)], 0);
        assert_eq!((plan.leave, plan.stay_out), (vec![], vec![0]));
        // There is room for one of two.
        let plan =
            planned(&[held(60, 10, &[&large])], &[need(30, 10, 500, &large), need(30, 10, 1, &small)], 0);
        assert_eq!(plan, Plan { fit: vec![1], stay_out: vec![0], ..Plan::default() });
    }

    #[test]
    fn processes_within_their_quota_do_not_keep_out_one_that_has_less() {
        let [a, b, c, small] = [1, 2, 3, 4].map(|pid| HashSet::from([pid]));
        let shared = HashSet::from([3, 4]);
        // All of them in use, and none beyond its quota: 40, 30 and 30 bytes.
        let all = [
            held(10, 10, &[&a]),
            held(30, 10, &[&a]),
            held(20, 10, &[&b]),
            held(10, 10, &[&b]),
            held(20, 10, &[&c]),
            held(10, 10, &[&shared]),
        ];
        // It has 10 of the 100 bytes. The largest one gives way, as long as it has more.
        let plan = planned(&all, &[need(10, 10, 1, &small)], 0);
        assert_eq!(plan, Plan { leave: vec![0], ..Plan::default() });
        let plan = planned(&all, &[need(19, 10, 1, &small)], 0);
        assert_eq!(plan.leave, [0, 1]);
        // With 25 bytes it would have more than the others but the first, and that has less than 35 when one of its tables has left.
        let plan = planned(&all, &[need(35, 10, 1, &small)], 0);
        assert_eq!((plan.leave, plan.stay_out), (vec![], vec![0]));
        // Those that gave way have no more than it: they make nothing of it leave.
        let after = [held(30, 10, &[&a]), held(30, 10, &[&b]), held(20, 10, &[&c]), held(20, 10, &[&small])];
        assert_eq!(planned(&after, &[need(10, 10, 99, &a)], 0).stay_out, [0]);
    }

    #[test]
    fn a_process_beyond_its_quota_makes_only_itself_leave() {
        let [large, small] = [1, 2].map(|pid| HashSet::from([pid]));
        let all = [held(60, 2, &[&large]), held(10, 10, &[&large]), held(30, 1, &[&small])];
        assert_eq!(planned(&all, &[need(20, 10, 9, &large)], 0).leave, [0]);
        let all = [held(60, 10, &[&large]), held(40, 1, &[&small])];
        assert_eq!(planned(&all, &[need(20, 10, 9, &large)], 0).stay_out, [0]);
    }

    #[test]
    fn what_most_samples_need_is_served_first() {
        let [a, b, c] = [1, 2, 3].map(|pid| HashSet::from([pid]));
        let all = [held(40, 1, &[&a]), held(40, 9, &[&c])];
        let needs = [need(40, 10, 5, &b), need(45, 10, 80, &b), need(30, 10, 6, &b)];
        let plan = planned(&all, &needs, 0);
        assert_eq!(plan, Plan { fit: vec![], leave: vec![0], stay_out: vec![2, 0] });
    }
}
