//! Where the lists of mappings of processes lie in the table pool, and how much they take together.

use std::collections::HashMap;

use crate::table_pool::TablePool;

/// The mappings of a process in the table pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    pub(crate) start: u32,
    pub(crate) words: u32,
    /// The generation of the process with which the programs got it.
    pub(crate) generation: u32,
}

impl List {
    pub(crate) fn give(self, pool: &mut TablePool) {
        if self.words > 0 {
            pool.give(self.start, self.words);
        }
    }
}

/// The lists by process.
#[derive(Debug, Default)]
pub(crate) struct MappingLists {
    lists: HashMap<u32, List>,
    words: usize,
}

impl MappingLists {
    pub(crate) fn get(&self, pid: u32) -> Option<List> {
        self.lists.get(&pid).copied()
    }

    /// Gives the one before.
    pub(crate) fn insert(&mut self, pid: u32, list: List) -> Option<List> {
        let before = self.lists.insert(pid, list);
        self.words += list.words as usize;
        self.words -= before.map_or(0, |list| list.words as usize);
        before
    }

    pub(crate) fn remove(&mut self, pid: u32) -> Option<List> {
        let list = self.lists.remove(&pid)?;
        self.words -= list.words as usize;
        Some(list)
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Words of all of them, without a look at each.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, List)> {
        self.lists.iter().map(|(pid, list)| (*pid, *list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_all_lists_are_known_at_any_time() {
        let list = |words| List { start: 8, words, generation: 1 };
        let mut lists = MappingLists::default();
        assert!(lists.insert(7, list(80)).is_none() && lists.insert(8, list(16)).is_none());
        assert_eq!(lists.insert(7, list(40)).map(|list| list.words), Some(80));
        assert_eq!((lists.words(), lists.len()), (56, 2));
        assert!(lists.remove(9).is_none() && lists.remove(7).is_some());
        assert_eq!((lists.words(), lists.iter().count()), (16, 1));
    }
}
