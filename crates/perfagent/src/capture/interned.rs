//! Things that are kept once and named by a number, up to a limit: a target must not be able to fill our memory.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// No more than so many of a kind.
const MAX: usize = 1_000_000;

/// Each of them once, in the order of their first sight.
pub(super) struct Interned<T> {
    items: Vec<T>,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { items: Vec::new(), numbers: HashTable::new(), hasher: RandomState::new() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The number of an item, which is kept from now on. None: there are too many.
    pub(super) fn number(&mut self, item: T) -> Option<u32> {
        let Self { items, numbers, hasher } = self;
        let hash = hasher.hash_one(&item);
        let entry = numbers.entry(
            hash,
            |number| items[*number as usize] == item,
            |number| hasher.hash_one(&items[*number as usize]),
        );
        match entry {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(_) if items.len() >= MAX => None,
            Entry::Vacant(entry) => {
                let number = items.len() as u32;
                entry.insert(number);
                items.push(item);
                Some(number)
            }
        }
    }

    /// The item with a number that was given.
    pub(super) fn get(&self, number: u32) -> &T {
        &self.items[number as usize]
    }

    /// All of them, by their numbers.
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }
}
