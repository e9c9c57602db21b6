//! The sums of a capture: under which keys the programs add them up, and of which stacks they are.
//!
//! There are as many sums as there are different stacks, however many keys they came under: an interval whose stack
//! could not be walked in the kernel has a key of its own, and so has every process. A key is let go when its sums have been
//! taken and cannot come again. Nothing is lost silently: what finds no room is counted by what it is a sum of.

use hashbrown::HashMap;
use kernel::{State, Sums};

/// More than so many keys, pairs or sums that wait are not kept: a target must not be able to fill our memory.
const MAX_KEYS: usize = 1_000_000;
/// Keys of wakers and of pairs come again with a message after the sums have been taken; one that was under way then is
/// over by the second time.
const KEPT_DRAINS: u32 = 2;

/// Number of a stack, see [`super::stacks::Stacks`].
pub(super) type StackId = u32;

/// What the sums under a key are of.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) stack: StackId,
    pub(super) pid: u32,
    pub(super) image: u64,
    /// It is the key of one interval alone.
    pub(super) once: bool,
}

struct Known {
    key: Key,
    /// How often sums had been taken when a message told of it last.
    heard: u32,
}

/// A stack, or the key of one that is still on its way.
#[derive(Clone, Copy)]
enum Part {
    Stack(StackId),
    Key(u64),
}

/// Intervals in one place that one waker ended.
struct Pair {
    blocked: Part,
    /// The key of the blocked stack if it is that of one interval alone.
    once: Option<u64>,
    waker: Part,
    /// While one of them is not known.
    sums: Sums,
    heard: u32,
}

/// All sums.
#[derive(Default)]
pub(super) struct Book {
    keys: HashMap<u64, Known>,
    pairs: HashMap<u64, Pair>,
    /// By stack, and by that of the waker.
    sums: HashMap<(StackId, Option<StackId>), Sums>,
    /// Sums of keys that are still on their way: in the ring, or waiting for tables.
    early: HashMap<u64, Sums>,
    /// How often sums have been taken.
    drains: u32,
    /// Samples of stacks that were too many to keep, by number of [`State`].
    pub(super) not_kept: [u64; State::ALL.len()],
    /// Of those that were kept, intervals without who ended them, for the same reason.
    pub(super) wakers_not_kept: u64,
}

/// Whether sums are of an interval: one that is not recorded has a value and no count (`SUMS_END` of `bpf/abi.h`). What has
/// neither only tells that its stack has crossed.
fn is_of_interval(sums: Sums) -> bool {
    sums.count > 0 || sums.value > 0
}

fn add(sums: &mut Sums, more: Sums) {
    sums.count += more.count;
    sums.value += more.value;
    sums.waited += more.waited;
}

impl Book {
    /// Takes in a key at its first sight.
    pub(super) fn enter(&mut self, hash: u64, key: Key) {
        let early = self.early.remove(&hash);
        if let Some(sums) = early {
            self.add_to(key.stack, None, sums);
        }
        let is_over = key.once && early.is_some_and(is_of_interval);
        if !is_over && (self.keys.len() < MAX_KEYS || self.keys.contains_key(&hash)) {
            self.keys.insert(hash, Known { key, heard: self.drains });
        }
    }

    /// Sums under `hash` are of intervals in the stack under `blocked`, ended by the one under `waker`.
    pub(super) fn enter_pair(&mut self, hash: u64, blocked: u64, waker: u64) {
        if self.pairs.len() >= MAX_KEYS && !self.pairs.contains_key(&hash) {
            return;
        }
        let sums = self.early.remove(&hash).unwrap_or_default();
        let new = || Pair {
            blocked: Part::Key(blocked),
            once: None,
            waker: Part::Key(waker),
            sums: Sums::default(),
            heard: 0,
        };
        let mut pair = self.pairs.remove(&hash).unwrap_or_else(new);
        pair.heard = self.drains;
        add(&mut pair.sums, sums);
        if self.look_up(&mut pair) {
            self.pairs.insert(hash, pair);
        }
    }

    /// Adds what the programs have summed up under a key.
    pub(super) fn add(&mut self, hash: u64, sums: Sums) {
        if let Some(known) = self.keys.get(&hash) {
            let key = known.key;
            self.add_to(key.stack, None, sums);
            if key.once && is_of_interval(sums) {
                self.keys.remove(&hash);
            }
        } else if let Some(mut pair) = self.pairs.remove(&hash) {
            add(&mut pair.sums, sums);
            pair.heard = self.drains;
            if self.look_up(&mut pair) {
                self.pairs.insert(hash, pair);
            }
        } else if is_of_interval(sums) {
            if self.early.len() < MAX_KEYS || self.early.contains_key(&hash) {
                add(self.early.entry(hash).or_default(), sums);
            } else {
                self.not_kept[State::of_key(hash) as usize] += sums.count;
            }
        }
    }

    /// Adds to the sums of a stack.
    pub(super) fn add_to(&mut self, stack: StackId, waker: Option<StackId>, sums: Sums) {
        if sums.count > 0 {
            add(self.sums.entry((stack, waker)).or_default(), sums);
        }
    }

    /// Finds the stacks of a pair, and hands its sums over to them. Whether the pair may still be needed.
    fn look_up(&mut self, pair: &mut Pair) -> bool {
        if let Part::Key(hash) = pair.blocked
            && let Some(known) = self.keys.get(&hash)
        {
            pair.blocked = Part::Stack(known.key.stack);
            pair.once = known.key.once.then_some(hash);
        }
        if let Part::Key(hash) = pair.waker
            && let Some(known) = self.keys.get(&hash)
        {
            pair.waker = Part::Stack(known.key.stack);
        }
        let (Part::Stack(blocked), Part::Stack(waker)) = (pair.blocked, pair.waker) else { return true };
        let sums = std::mem::take(&mut pair.sums);
        self.add_to(blocked, Some(waker), sums);
        if let Some(hash) = pair.once.filter(|_| sums.count > 0) {
            self.keys.remove(&hash);
            return false;
        }
        true
    }

    /// All sums have just been taken: lets go of keys that cannot come again. `may_come` is asked about an image of a
    /// process.
    pub(super) fn release(&mut self, mut may_come: impl FnMut(u32, u64) -> bool) {
        self.drains += 1;
        for (hash, mut pair) in std::mem::take(&mut self.pairs) {
            let waits = |pair: &Pair| pair.sums.count > 0;
            if self.look_up(&mut pair) && (waits(&pair) || self.drains - pair.heard < KEPT_DRAINS) {
                self.pairs.insert(hash, pair);
            }
        }
        let drains = self.drains;
        self.keys.retain(|hash, known| {
            if State::of_key(*hash).is_waker() {
                drains - known.heard < KEPT_DRAINS
            } else {
                may_come(known.key.pid, known.key.image)
            }
        });
        self.keys.shrink_to(2 * self.keys.len());
        self.pairs.shrink_to(2 * self.pairs.len());
        self.early.shrink_to(2 * self.early.len());
    }

    /// Nothing more is on its way: what has sums and no stack is lost.
    pub(super) fn settle(&mut self) {
        for (hash, sums) in std::mem::take(&mut self.early) {
            self.not_kept[State::of_key(hash) as usize] += sums.count;
        }
        for (hash, mut pair) in std::mem::take(&mut self.pairs) {
            self.look_up(&mut pair);
            match pair.blocked {
                Part::Stack(blocked) => {
                    self.wakers_not_kept += pair.sums.count;
                    self.add_to(blocked, None, pair.sums);
                }
                Part::Key(_) => self.not_kept[State::of_key(hash) as usize] += pair.sums.count,
            }
        }
    }

    /// Keys that are looked after.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.keys.len() + self.pairs.len() + self.early.len()
    }

    /// The sums with their stacks, and who ended the intervals.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StackId, Option<StackId>, Sums)> {
        self.sums.iter().map(|((stack, waker), sums)| (*stack, *waker, *sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKED: u64 = State::Blocked as u64;
    const WAKER: u64 = State::Waker as u64;

    /// A key: of a number, and what its sums are of.
    fn key_of(number: u64, state: u64) -> u64 {
        number << 8 | state
    }

    fn sums(count: u64, value: u64) -> Sums {
        let mut sums = Sums::default();
        (sums.count, sums.value) = (count, value);
        sums
    }

    fn key(stack: StackId, pid: u32, once: bool) -> Key {
        Key { stack, pid, image: 1, once }
    }

    fn of(book: &Book, stack: StackId, waker: Option<StackId>) -> (u64, u64) {
        let found = book.iter().find(|(s, w, _)| (*s, *w) == (stack, waker));
        found.map_or((0, 0), |(_, _, sums)| (sums.count, sums.value))
    }

    #[test]
    fn intervals_with_keys_of_their_own_become_one_sum_and_leave_nothing() {
        let mut book = Book::default();
        for interval in 0..10_000u64 {
            let hash = key_of(interval, BLOCKED);
            if interval % 2 == 0 {
                book.enter(hash, key(7, 1, true));
                book.add(hash, sums(1, 5));
            } else {
                book.add(hash, sums(1, 5));
                book.enter(hash, key(7, 1, true));
            }
        }
        assert_eq!(of(&book, 7, None), (10_000, 50_000));
        assert_eq!(book.iter().count(), 1);
        assert_eq!(book.held(), 0);
    }

    #[test]
    fn intervals_that_were_too_short_leave_nothing_either() {
        let mut book = Book::default();
        for interval in 0..10_000u64 {
            let hash = key_of(interval, BLOCKED);
            if interval % 2 == 0 {
                book.enter(hash, key(7, 1, true));
                book.add(hash, sums(0, 1));
            } else {
                book.add(hash, sums(0, 1));
                book.enter(hash, key(7, 1, true));
            }
            // What has crossed without an interval so far stays.
            book.add(1 << 40 | hash, sums(0, 0));
        }
        assert_eq!((of(&book, 7, None), book.iter().count(), book.held()), ((0, 0), 0, 0));
        book.enter(BLOCKED, key(7, 1, true));
        book.add(BLOCKED, sums(0, 0));
        assert_eq!(book.held(), 1);
    }

    #[test]
    fn a_pair_waits_for_both_of_its_stacks_and_lets_go_of_them() {
        let mut book = Book::default();
        for interval in 0..100u64 {
            let (hash, blocked, waker) = (
                key_of(interval << 1 | 1, BLOCKED),
                key_of(interval << 1, BLOCKED),
                key_of(interval << 1, WAKER),
            );
            book.enter_pair(hash, blocked, waker);
            book.add(hash, sums(1, 3));
            book.enter(waker, key(9, 2, false));
            book.enter(blocked, key(7, 1, true));
        }
        for _ in 0..4 {
            book.release(|_, _| true);
        }
        assert_eq!(of(&book, 7, Some(9)), (100, 300));
        assert_eq!(book.held(), 0);
    }

    #[test]
    fn keys_of_a_process_go_when_it_has_ended_and_not_before() {
        let mut book = Book::default();
        book.enter(key_of(1, BLOCKED), key(7, 1, false));
        book.enter(key_of(2, BLOCKED), key(7, 2, false));
        for _ in 0..4 {
            book.release(|pid, _| pid != 2);
        }
        book.add(key_of(1, BLOCKED), sums(1, 1));
        book.add(key_of(2, BLOCKED), sums(1, 1));
        assert_eq!(of(&book, 7, None), (1, 1));
        book.settle();
        assert_eq!(book.not_kept[State::Blocked as usize], 1);
    }

    #[test]
    fn what_has_no_stack_at_the_end_is_counted_by_what_it_is_a_sum_of() {
        let mut book = Book::default();
        book.add(key_of(1, 0), sums(2, 2));
        book.add(key_of(1, State::Preempted as u64), sums(3, 900));
        // The blocked stack was refused; the second one's waker was.
        book.enter_pair(key_of(2, BLOCKED), key_of(3, BLOCKED), key_of(4, WAKER));
        book.add(key_of(2, BLOCKED), sums(4, 1));
        book.enter(key_of(5, BLOCKED), key(7, 1, false));
        book.enter_pair(key_of(6, BLOCKED), key_of(5, BLOCKED), key_of(7, WAKER));
        book.add(key_of(6, BLOCKED), sums(5, 1));
        book.settle();
        assert_eq!(book.not_kept[State::Sampled as usize], 2);
        assert_eq!(book.not_kept[State::Preempted as usize], 3);
        assert_eq!(book.not_kept[State::Blocked as usize], 4);
        assert_eq!((of(&book, 7, None), book.wakers_not_kept), ((5, 1), 5));
    }
}
