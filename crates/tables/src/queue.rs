//! Requests by priority; among equals, the first one first.

use std::collections::BTreeMap;
use std::collections::HashMap;

/// The most requests that may wait; each may hold a file open.
pub const MAX_PENDING: usize = 65_536;

/// The order of entries: higher priority first, then the older entry. `(!priority, sequence)`.
type Rank = (u64, u64);

/// A priority queue whose entries can be raised by key.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    entries: BTreeMap<Rank, (u64, T)>,
    ranks: HashMap<u64, Rank>,
    sequence: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), ranks: HashMap::new(), sequence: 0 }
    }
}

impl<T> Queue<T> {
    /// False if the key already waits or the queue is full; then the entry is dropped.
    pub(crate) fn push(&mut self, key: u64, priority: u64, entry: T) -> bool {
        if self.entries.len() >= MAX_PENDING || self.ranks.contains_key(&key) {
            return false;
        }
        let rank = (!priority, self.sequence);
        self.sequence += 1;
        self.ranks.insert(key, rank);
        self.entries.insert(rank, (key, entry));
        true
    }

    /// Removes the first entry that `allowed` accepts.
    pub(crate) fn pop(&mut self, allowed: impl Fn(&T) -> bool) -> Option<(u64, T)> {
        let rank = *self.entries.iter().find(|(_, (_, entry))| allowed(entry))?.0;
        let (key, entry) = self.entries.remove(&rank)?;
        self.ranks.remove(&key);
        Some((key, entry))
    }

    /// Raises the priority of a waiting key by one. False if it does not wait.
    pub(crate) fn bump(&mut self, key: u64) -> bool {
        let Some(rank) = self.ranks.get_mut(&key) else { return false };
        if let Some(entry) = self.entries.remove(rank) {
            rank.0 = rank.0.saturating_sub(1);
            self.entries.insert(*rank, entry);
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_by_priority_and_age() {
        let mut queue = Queue::default();
        for (key, priority) in [(1, 0), (2, 5), (3, 0), (4, 5), (5, 0)] {
            assert!(queue.push(key, priority, ()));
        }
        assert!(!queue.push(3, 9, ()));
        assert!(queue.bump(5) && !queue.bump(6));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(|()| true)).map(|(key, ())| key).collect();
        assert_eq!(order, [2, 4, 5, 1, 3]);
        assert!(queue.push(3, 0, ()));
    }

    #[test]
    fn entries_that_are_not_allowed_stay() {
        let mut queue = Queue::default();
        for key in 1..=4 {
            assert!(queue.push(key, 0, key));
        }
        assert_eq!(queue.pop(|entry| entry % 2 == 0), Some((2, 2)));
        assert_eq!(queue.pop(|entry| *entry > 4), None);
        assert_eq!(queue.pop(|_| true), Some((1, 1)));
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn a_full_queue_refuses_entries() {
        let mut queue = Queue::default();
        (0..MAX_PENDING as u64).for_each(|key| assert!(queue.push(key, 0, ())));
        assert!(!queue.push(u64::MAX, 0, ()));
        assert_eq!(queue.len(), MAX_PENDING);
    }
}
