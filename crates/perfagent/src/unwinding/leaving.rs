//! Tables on their way out of the kernel. Lists of mappings name them, so they leave in two steps: first the lists are written anew without
//! them, and when no list names a table any more, its memory is freed. The kernel side lets freed memory rest, for programs that read it
//! at that moment.

use std::collections::HashSet;
use std::sync::Arc;

/// A table, and the processes whose list in the kernel names it.
struct Leaving<T> {
    table: Arc<T>,
    named_by: HashSet<u32>,
}

/// All of them.
pub(super) struct LeavingTables<T>(Vec<Leaving<T>>);

impl<T> Default for LeavingTables<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> LeavingTables<T> {
    /// A table is used no more. `named_by`: the processes whose lists have to be written anew.
    pub(super) fn add(&mut self, table: Arc<T>, named_by: HashSet<u32>) {
        self.0.push(Leaving { table, named_by });
    }

    /// The list of a process names none of them any more, or there is no such list.
    pub(super) fn no_longer_named_by(&mut self, pid: u32) {
        for leaving in &mut self.0 {
            leaving.named_by.remove(&pid);
        }
    }

    /// All that still take memory.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|leaving| leaving.table.as_ref())
    }

    /// Takes those that no list names, to be freed.
    pub(super) fn take_unnamed(&mut self) -> Vec<T> {
        let unnamed = self.0.extract_if(.., |leaving| leaving.named_by.is_empty());
        unnamed.filter_map(|leaving| Arc::into_inner(leaving.table)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_freed_when_no_list_names_it_any_more() {
        let mut leaving = LeavingTables::default();
        leaving.add(Arc::new("libc"), HashSet::from([1, 2]));
        leaving.add(Arc::new("unused"), HashSet::new());
        assert_eq!(leaving.take_unnamed(), ["unused"]);
        leaving.no_longer_named_by(1);
        leaving.no_longer_named_by(7);
        assert_eq!(leaving.take_unnamed(), [""; 0]);
        assert_eq!(leaving.iter().count(), 1);
        leaving.no_longer_named_by(2);
        assert_eq!(leaving.take_unnamed(), ["libc"]);
    }
}
