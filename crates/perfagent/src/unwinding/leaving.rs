//! Tables on their way out of the kernel. Lists of mappings name them, so they leave in two steps: first the lists are written anew without
//! them, and when no list names a table any more, its memory is freed. The kernel side lets freed memory rest, for programs that read it
//! at that moment.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A table, and how many processes have a list in the kernel that names it.
struct Leaving<T> {
    table: Arc<T>,
    named_by: usize,
}

/// All of them.
pub(super) struct LeavingTables<T> {
    /// By the order in which they left.
    tables: HashMap<u64, Leaving<T>>,
    next: u64,
    /// The tables that the list of a process names: the end of a process costs no look at the others.
    named: HashMap<u32, Vec<u64>>,
    /// Those that no list names.
    unnamed: Vec<Arc<T>>,
}

impl<T> Default for LeavingTables<T> {
    fn default() -> Self {
        Self { tables: HashMap::new(), next: 0, named: HashMap::new(), unnamed: Vec::new() }
    }
}

impl<T> LeavingTables<T> {
    /// A table is used no more. `named_by`: the processes whose lists have to be written anew.
    pub(super) fn add(&mut self, table: Arc<T>, named_by: &HashSet<u32>) {
        if named_by.is_empty() {
            self.unnamed.push(table);
            return;
        }
        for pid in named_by {
            self.named.entry(*pid).or_default().push(self.next);
        }
        self.tables.insert(self.next, Leaving { table, named_by: named_by.len() });
        self.next += 1;
    }

    /// The list of a process names none of them any more, or there is no such list.
    pub(super) fn no_longer_named_by(&mut self, pid: u32) {
        for number in self.named.remove(&pid).unwrap_or_default() {
            let Some(leaving) = self.tables.get_mut(&number) else { continue };
            leaving.named_by -= 1;
            if leaving.named_by == 0 {
                self.unnamed.extend(self.tables.remove(&number).map(|leaving| leaving.table));
            }
        }
    }

    /// All that still take memory.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.tables.values().map(|leaving| &leaving.table).chain(&self.unnamed).map(AsRef::as_ref)
    }

    /// Takes those that no list names, to be freed.
    pub(super) fn take_unnamed(&mut self) -> Vec<T> {
        std::mem::take(&mut self.unnamed).into_iter().filter_map(Arc::into_inner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_freed_when_no_list_names_it_any_more() {
        let mut leaving = LeavingTables::default();
        leaving.add(Arc::new("libc"), &HashSet::from([1, 2]));
        leaving.add(Arc::new("unused"), &HashSet::new());
        assert_eq!(leaving.take_unnamed(), ["unused"]);
        leaving.no_longer_named_by(1);
        leaving.no_longer_named_by(7);
        assert_eq!(leaving.take_unnamed(), [""; 0]);
        assert_eq!(leaving.iter().count(), 1);
        leaving.no_longer_named_by(2);
        assert_eq!(leaving.take_unnamed(), ["libc"]);
        assert!(leaving.named.is_empty() && leaving.tables.is_empty(), "nothing is kept");
    }
}
