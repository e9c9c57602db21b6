//! A table that keeps equal items once and names each by a number.

use std::hash::Hash;

use indexmap::IndexSet;

/// Items in the order in which they were first seen, each once, up to a limit.
///
/// What a target does decides how many items there are, so the limit bounds the memory that a target can make us use.
#[derive(Clone, Debug)]
pub struct Interner<T> {
    items: IndexSet<T>,
    limit: usize,
}

impl<T: Eq + Hash> Interner<T> {
    /// An empty table for at most `limit` items.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self { items: IndexSet::new(), limit: limit.min(u32::MAX as usize) }
    }

    /// The number of an item. The item is added if it is new; `None` if the table is full.
    pub fn number(&mut self, item: T) -> Option<u32> {
        if self.items.len() >= self.limit {
            return self.items.get_index_of(&item).map(|index| index as u32);
        }
        Some(self.items.insert_full(item).0 as u32)
    }

    /// The item with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get_index(number as usize)
    }

    /// The number of an item, if it is in the table.
    #[must_use]
    pub fn find(&self, item: &T) -> Option<u32> {
        self.items.get_index_of(item).map(|index| index as u32)
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All items by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.items.iter()
    }

    /// The items by number, without the table.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.items.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_have_one_number_and_a_full_table_takes_no_new_ones() {
        let mut table = Interner::with_limit(2);
        assert_eq!([table.number("a"), table.number("b"), table.number("a")], [Some(0), Some(1), Some(0)]);
        assert_eq!([table.number("c"), table.number("b")], [None, Some(1)]);
        assert_eq!((table.len(), table.get(1), table.get(2)), (2, Some(&"b"), None));
        assert_eq!(table.into_vec(), ["a", "b"]);
    }
}
