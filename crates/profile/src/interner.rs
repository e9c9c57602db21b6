//! Items that are stored once and named by a number.

use std::hash::Hash;

use indexmap::IndexSet;

/// A set that numbers its items from 0 in the order in which they first came. It holds a limited number of items, so
/// that input from outside cannot fill the memory.
///
/// ```
/// let mut names = profile::Interner::with_limit(2);
/// assert_eq!(names.number("malloc"), Some(0));
/// assert_eq!(names.number("free"), Some(1));
/// assert_eq!(names.number("malloc"), Some(0), "known items keep their number");
/// assert_eq!(names.number("calloc"), None, "the set is full");
/// assert_eq!(names.get(1), Some(&"free"));
/// ```
#[derive(Clone, Debug)]
pub struct Interner<T> {
    items: IndexSet<T>,
    limit: u32,
}

impl<T: Eq + Hash> Interner<T> {
    /// An empty set for at most `limit` items.
    #[must_use]
    pub fn with_limit(limit: u32) -> Self {
        Self { items: IndexSet::new(), limit }
    }

    /// The number of an item. A new item is added; `None` if the set is full.
    pub fn number(&mut self, item: T) -> Option<u32> {
        let index = if self.items.len() < self.limit as usize {
            self.items.insert_full(item).0
        } else {
            self.items.get_index_of(&item)?
        };
        u32::try_from(index).ok()
    }

    /// The item with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get_index(number as usize)
    }

    /// The number of an item, if it is in the set.
    #[must_use]
    pub fn find(&self, item: &T) -> Option<u32> {
        self.items.get_index_of(item).and_then(|index| u32::try_from(index).ok())
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.items.iter()
    }

    /// The items in the order of their numbers, without their index.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_the_numbers_of_their_first_appearance() {
        let mut interner = Interner::with_limit(10);
        let numbers: Vec<_> = ["b", "a", "b", "c", "a"].iter().map(|item| interner.number(*item)).collect();
        assert_eq!(numbers, [Some(0), Some(1), Some(0), Some(2), Some(1)]);
        assert_eq!((interner.get(0), interner.get(2), interner.get(3)), (Some(&"b"), Some(&"c"), None));
        assert_eq!(interner.iter().copied().collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(interner.into_items(), ["b", "a", "c"]);
    }

    #[test]
    fn a_full_set_still_knows_its_items() {
        let mut interner = Interner::with_limit(2);
        assert!(interner.is_empty());
        assert_eq!([1, 2, 3, 2].map(|item| interner.number(item)), [Some(0), Some(1), None, Some(1)]);
        assert_eq!(interner.len(), 2);
        assert_eq!(Interner::with_limit(0).number("any"), None);
    }
}
