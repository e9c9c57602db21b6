use super::*;
use crate::count::{Link, Object};
use crate::values::StackSums;

const EVENT: EventId = EventId(1);

fn sums(count: u64, value: u64) -> Values {
    StackSums { count, value, waited: 0 }.into()
}

fn key(stack: u32, pid: u32, once: bool) -> Key {
    Key { event: EVENT, stack: TaskStackId(stack), pid, exec_id: 1, once }
}

fn of(keys: &Keys, stack: u32, waker: Option<u32>) -> (u64, u64) {
    let links = waker.map(|waker| Link { role: Role::Waker, stack: TaskStackId(waker) });
    let place = Place { links: links.into_iter().collect(), ..Place::of(EVENT, TaskStackId(stack)) };
    keys.sums.get(&place).map_or((0, 0), |Values([count, value, _])| (*count, *value))
}

fn keys() -> Keys {
    Keys::with_limit(1_000_000)
}

#[test]
fn intervals_with_keys_of_their_own_become_one_sum_and_leave_nothing() {
    let mut keys = keys();
    for hash in 0..10_000u64 {
        if hash % 2 == 0 {
            keys.enter(hash, key(7, 1, true), State::Blocked);
            keys.add(hash, EVENT, State::Blocked, sums(1, 5));
        } else {
            keys.add(hash, EVENT, State::Blocked, sums(1, 5));
            keys.enter(hash, key(7, 1, true), State::Blocked);
        }
    }
    assert_eq!(of(&keys, 7, None), (10_000, 50_000));
    assert_eq!((keys.sums.len(), keys.held()), (1, 0));
}

#[test]
fn intervals_that_were_too_short_leave_nothing_either() {
    let mut keys = keys();
    for hash in 0..10_000u64 {
        if hash % 2 == 0 {
            keys.enter(hash, key(7, 1, true), State::Blocked);
            keys.add(hash, EVENT, State::Blocked, sums(0, 1));
        } else {
            keys.add(hash, EVENT, State::Blocked, sums(0, 1));
            keys.enter(hash, key(7, 1, true), State::Blocked);
        }
        // Sums that only tell that a stack was sent.
        keys.add(1 << 32 | hash, EVENT, State::Blocked, sums(0, 0));
    }
    assert_eq!((of(&keys, 7, None), keys.sums.len(), keys.held()), ((0, 0), 0, 0));
    keys.enter(1, key(7, 1, true), State::Blocked);
    keys.add(1, EVENT, State::Blocked, sums(0, 0));
    assert_eq!(keys.held(), 1);
}

#[test]
fn a_pair_waits_for_both_of_its_stacks_and_then_drops_them() {
    let mut keys = keys();
    for n in 0..100u64 {
        let (pair, blocked, waker) = (3 * n, 3 * n + 1, 3 * n + 2);
        keys.enter_pair(pair, EVENT, State::Blocked, blocked, waker);
        keys.add(pair, EVENT, State::Blocked, sums(1, 3));
        keys.enter(waker, key(9, 2, false), State::Waker);
        keys.enter(blocked, key(7, 1, true), State::Blocked);
    }
    for _ in 0..4 {
        keys.release(|_, _| true);
    }
    assert_eq!((of(&keys, 7, Some(9)), keys.held()), ((100, 300), 0));
}

#[test]
fn keys_of_a_process_are_dropped_when_it_has_ended_and_not_before() {
    let mut keys = keys();
    keys.enter(8, key(7, 1, false), State::Blocked);
    keys.enter(16, key(7, 2, false), State::Blocked);
    for _ in 0..4 {
        keys.release(|pid, _| pid != 2);
    }
    keys.add(8, EVENT, State::Blocked, sums(1, 1));
    keys.add(16, EVENT, State::Blocked, sums(1, 1));
    assert_eq!(of(&keys, 7, None), (1, 1));
    keys.settle(false);
    assert_eq!(keys.without_stack[State::Blocked as usize], 1);
}

#[test]
fn sums_without_a_stack_at_the_end_are_counted_by_state() {
    let mut keys = keys();
    keys.add(1, EVENT, State::Sampled, sums(2, 2));
    keys.add(2, EVENT, State::Preempted, sums(3, 900));
    // The blocked stack of this pair never comes; the waker's of the next one does not.
    keys.enter_pair(3, EVENT, State::Blocked, 4, 5);
    keys.add(3, EVENT, State::Blocked, sums(4, 1));
    keys.enter(6, key(7, 1, false), State::Blocked);
    keys.enter_pair(7, EVENT, State::Blocked, 6, 8);
    keys.add(7, EVENT, State::Blocked, sums(5, 1));
    keys.settle(false);
    let without_stack =
        [State::Sampled, State::Preempted, State::Blocked].map(|state| keys.without_stack[state as usize]);
    assert_eq!((without_stack, of(&keys, 7, None), keys.wakers_not_kept), ([2, 3, 4], (5, 1), 5));
}

#[test]
fn a_cut_keeps_open_keys_recent_keys_and_recent_wakers_and_nothing_else() {
    let mut keys = keys();
    keys.enter(1, key(1, 1, false), State::Blocked);
    keys.enter(2, key(2, 1, false), State::Blocked);
    keys.enter(3, key(3, 1, false), State::Waker);
    keys.add(1, EVENT, State::Blocked, sums(4, 40));
    keys.begin_cut();
    keys.enter(5, key(5, 1, false), State::Sampled);
    keys.add_open(2, sums(9, 7));
    let taken = keys.cut(&HashSet::from([2]), |stack| Some(TaskStackId(stack.0 + 100)));
    let value = |stack: u32| taken.get(&Place::of(EVENT, TaskStackId(stack))).copied().unwrap_or_default();
    assert_eq!((value(1), value(2)), (sums(4, 40), sums(0, 7)));
    assert_eq!(keys.held(), 3);
    keys.add(2, EVENT, State::Blocked, sums(1, 3));
    keys.add(5, EVENT, State::Sampled, sums(1, 1));
    assert_eq!((of(&keys, 102, None), of(&keys, 105, None)), ((1, 3), (1, 1)));
    keys.begin_cut();
    let _ = keys.cut(&HashSet::new(), Some);
    assert_eq!(keys.held(), 0);
}

#[test]
fn time_of_an_interval_whose_stack_is_on_its_way_is_added_when_it_comes() {
    let mut keys = keys();
    keys.begin_cut();
    keys.add_open(1, sums(0, 7));
    let _ = keys.cut(&HashSet::from([1]), Some);
    assert_eq!((keys.early_count(|_, _| true), keys.early_time_ns()), (0, 7));
    keys.enter(1, key(7, 1, true), State::Blocked);
    assert_eq!((of(&keys, 7, None), keys.held()), ((0, 7), 1), "the interval goes on");
    keys.add(1, EVENT, State::Blocked, sums(1, 3));
    assert_eq!((of(&keys, 7, None), keys.held()), ((1, 10), 0));
}

#[test]
fn sums_whose_stack_is_on_its_way_are_carried_over_a_cut() {
    let mut keys = keys();
    keys.add(1, EVENT, State::Blocked, sums(1, 5));
    keys.begin_cut();
    assert!(keys.cut(&HashSet::new(), Some).is_empty());
    assert_eq!([State::Blocked, State::IoWait].map(|s| keys.early_count(|_, state| state == s)), [1, 0]);
    keys.enter(1, key(7, 1, true), State::Blocked);
    assert_eq!((of(&keys, 7, None), keys.held()), ((1, 5), 0));
}

#[test]
fn pairs_of_which_a_stack_is_on_its_way_are_carried_over_a_cut() {
    let mut keys = keys();
    keys.enter(1, key(7, 1, false), State::Blocked);
    for (pair, waker, count) in [(3, 2, 4), (5, 4, 8)] {
        keys.enter_pair(pair, EVENT, State::Blocked, 1, waker);
        keys.add(pair, EVENT, State::Blocked, sums(count, 10));
    }
    keys.enter(4, key(9, 1, false), State::Waker);
    keys.begin_cut();
    keys.resolve_linked();
    let carried = keys.early_count(|_, state| state == State::Blocked);
    let taken = keys.cut(&HashSet::new(), Some);
    assert_eq!(taken.values().map(|sums| sums.count()).sum::<u64>(), 8);
    assert_eq!((carried, keys.early_time_ns()), (4, 10), "those whose waker is not known");
    keys.enter(2, key(9, 1, false), State::Waker);
    keys.release(|_, _| true);
    assert_eq!(of(&keys, 7, Some(9)), (4, 10));
}

#[test]
fn sums_have_a_limit_and_what_exceeds_it_is_counted() {
    let mut keys = Keys::with_limit(2);
    for stack in 1..=3 {
        keys.add_single(EVENT, TaskStackId(stack), State::Sampled, sums(10, 10));
    }
    keys.add_single(EVENT, TaskStackId(1), State::Sampled, sums(1, 1));
    assert_eq!([1, 2, 3].map(|stack| of(&keys, stack, None)), [(11, 11), (10, 10), (0, 0)]);
    assert_eq!(keys.not_kept[State::Sampled as usize], 10);
    drop(keys.cut(&HashSet::new(), |_| None));
    assert_eq!(keys.not_kept[State::Sampled as usize], 0);
    keys.add_single(EVENT, TaskStackId(3), State::Sampled, sums(5, 5));
    assert_eq!(of(&keys, 3, None), (5, 5), "the next interval has the limit for itself");
}

/// The place of waits in one stack that another one ended.
fn woken(stack: u32, waker: u32) -> Place {
    let links = vec![Link { role: Role::Waker, stack: TaskStackId(waker) }];
    Place { links, ..Place::of(EVENT, TaskStackId(stack)) }
}

#[test]
fn a_stack_is_kept_without_its_waker_where_wakers_are_too_many() {
    let mut keys = Keys::with_limit(2);
    let mut pair_of = |waker: u32| {
        keys.add_to(woken(7, waker), State::Blocked, sums(1, 3));
    };
    (1..=4).for_each(&mut pair_of);
    assert_eq!([1, 2, 3].map(|waker| of(&keys, 7, Some(waker))), [(1, 3), (1, 3), (0, 0)]);
    assert_eq!((of(&keys, 7, None), keys.wakers_not_kept), ((2, 6), 2));
    assert_eq!(keys.not_kept, [0; State::ALL.len()]);
    keys.add_single(EVENT, TaskStackId(8), State::Blocked, sums(1, 1));
    keys.add_to(woken(9, 1), State::Blocked, sums(4, 4));
    assert_eq!((keys.not_kept[State::Blocked as usize], keys.wakers_not_kept), (4, 2));
    assert_eq!(keys.sums.len(), 4);
}

#[test]
fn keys_have_limits_whatever_is_known_of_them() {
    let mut keys = Keys::with_limit(2);
    // Sums, and time of intervals that go on, before their stacks.
    (1..=3).for_each(|hash| keys.add(hash, EVENT, State::Sampled, sums(1, 1)));
    (11..=13).for_each(|hash| keys.add_open(hash, sums(0, 5)));
    // Stacks, and pairs, before their sums.
    (21..=23).for_each(|hash| keys.enter(hash, key(7, 1, false), State::Sampled));
    (31..=33).for_each(|hash| keys.enter_pair(hash, EVENT, State::Blocked, 41, 42));
    let held = [keys.early.len(), keys.early_open.len(), keys.known.len(), keys.linked.len()];
    assert_eq!((held, keys.not_kept[State::Sampled as usize]), ([2; 4], 1));
}

/// Waits for a lock in the stack under a key, which the stack under another one ended.
fn lock_key(stack: u64, waker: u64) -> LockKey {
    let object = Some(Object { address: 0x10, lock: None });
    LockKey {
        event: EventId::LOCKS,
        state: State::Blocked,
        stack,
        pid: 1,
        exec_id: 1,
        attached: Attached { links: vec![(Role::Releaser, waker)], object, time_bin: None },
        place: Some(TaskStackId(50)),
    }
}

fn lock_place(stack: u32, waker: u32) -> Place {
    let link = |role, stack| Link { role, stack: TaskStackId(stack) };
    Place {
        event: EventId::LOCKS,
        links: vec![link(Role::Releaser, waker), link(Role::Place, 50)],
        object: Some(Object { address: 0x10, lock: None }),
        ..Place::of(EVENT, TaskStackId(stack))
    }
}

#[test]
fn an_interval_that_is_a_wait_for_a_lock_too_is_in_both_sums_whichever_comes_first() {
    for lock_first in [false, true] {
        for stack_first in [false, true] {
            let mut keys = keys();
            let stack = |keys: &mut Keys| keys.enter(1, key(7, 1, true), State::Blocked);
            let interval = |keys: &mut Keys| keys.add(1, EVENT, State::Blocked, sums(1, 5));
            let lock = |keys: &mut Keys| {
                keys.enter_lock(3, lock_key(1, 2));
                keys.add(3, EventId::LOCKS, State::Blocked, sums(1, 5));
            };
            keys.enter(2, key(9, 1, false), State::Waker);
            keys.enter_lock(13, lock_key(11, 2));
            if stack_first {
                stack(&mut keys);
            }
            if lock_first {
                lock(&mut keys);
                interval(&mut keys);
            } else {
                interval(&mut keys);
                lock(&mut keys);
            }
            if !stack_first {
                stack(&mut keys);
            }
            keys.release(|_, _| true);
            let of_lock = keys.sums.get(&lock_place(7, 9)).copied().unwrap_or_default();
            assert_eq!((of(&keys, 7, None), of_lock), ((1, 5), sums(1, 5)), "{lock_first} {stack_first}");
            for _ in 0..4 {
                keys.release(|_, _| false);
            }
            assert_eq!((keys.held(), keys.over.len()), (0, 0));
        }
    }
}

#[test]
fn waits_for_locks_are_counted_apart_from_intervals() {
    let mut keys = keys();
    keys.enter_lock(3, lock_key(1, 2));
    keys.add(3, EventId::LOCKS, State::Blocked, sums(4, 9));
    keys.add(5, EventId::LOCK_LENGTHS, State::Blocked, sums(4, 0));
    assert_eq!((keys.early_count(|_, _| true), keys.early_locks(), keys.early_time_ns()), (0, 4, 0));
    keys.settle(false);
    let lost = (keys.without_stack, keys.not_kept, keys.locks_not_kept);
    assert_eq!(lost, ([0; State::ALL.len()], [0; State::ALL.len()], 4));
}

#[test]
fn time_of_a_wait_for_a_lock_that_goes_on_is_in_the_interval_that_ends() {
    let mut keys = keys();
    keys.enter(1, key(7, 1, false), State::Blocked);
    keys.enter(2, key(9, 1, false), State::Waker);
    keys.begin_cut();
    let open =
        LockKey { attached: Attached { links: Vec::new(), ..lock_key(1, 2).attached }, ..lock_key(1, 2) };
    keys.enter_lock(4, open);
    keys.add_open(4, sums(0, 7));
    let taken = keys.cut(&HashSet::from([1, 4]), |stack| Some(TaskStackId(stack.0 + 100)));
    let place = Place { links: vec![Link { role: Role::Place, stack: TaskStackId(50) }], ..lock_place(7, 9) };
    assert_eq!(taken.get(&place), Some(&sums(0, 7)));
    // It ends in the next interval, in a stack with another number there.
    keys.enter_lock(3, LockKey { place: Some(TaskStackId(50)), ..lock_key(1, 2) });
    keys.add(3, EventId::LOCKS, State::Blocked, sums(1, 3));
    assert_eq!(keys.sums.get(&lock_place(107, 109)), Some(&sums(1, 3)));
}
