//! Files of programs that were read, as far as there is memory for them; and how much was read of those that were released.

use std::collections::HashMap;

use crate::request::ProgramId;

/// What is kept, except for the file in use: more are read again when they are needed.
const KEPT_BYTES: usize = 64 << 20;
pub(super) const KEPT_FILES: usize = 64;
/// Programs whose number of bytes read is remembered when their file is released.
pub(super) const MAX_SPENT: usize = 1 << 14;

/// A file that was read.
pub(super) trait KeptFile {
    /// Heap in use.
    fn heap_bytes(&self) -> usize;

    /// Bytes that were read so far.
    fn bytes_read(&self) -> u64;
}

/// The files of programs, one for each.
pub(super) struct KeptFiles<T> {
    /// The one that was used last stands last.
    files: Vec<(ProgramId, T)>,
    /// Bytes that were read of files that were released.
    spent: HashMap<ProgramId, u64>,
}

impl<T> Default for KeptFiles<T> {
    fn default() -> Self {
        Self { files: Vec::new(), spent: HashMap::new() }
    }
}

impl<T: KeptFile> KeptFiles<T> {
    /// The file of a program, if it is kept. It is now the last one.
    pub(super) fn take_up(&mut self, id: ProgramId) -> Option<&mut T> {
        let at = self.files.iter().position(|(known, _)| *known == id)?;
        let known = self.files.remove(at);
        self.files.push(known);
        self.last()
    }

    /// Keeps a file, which is now the last one.
    pub(super) fn add(&mut self, id: ProgramId, file: T) -> Option<&mut T> {
        self.files.push((id, file));
        self.last()
    }

    /// The file that was used last.
    pub(super) fn last(&mut self) -> Option<&mut T> {
        self.files.last_mut().map(|(_, file)| file)
    }

    /// Bytes that were read of a program's files that were released.
    pub(super) fn spent(&self, id: ProgramId) -> u64 {
        self.spent.get(&id).copied().unwrap_or(0)
    }

    pub(super) fn add_spent(&mut self, id: ProgramId, bytes: u64) {
        *self.spent.entry(id).or_default() += bytes;
        if self.spent.len() > MAX_SPENT {
            self.forget_small();
        }
    }

    /// Releases the files that were not used for longest until the rest is small enough.
    pub(super) fn release(&mut self) {
        let Some((_, others)) = self.files.split_last() else { return };
        let mut total: usize = others.iter().map(|(_, file)| file.heap_bytes()).sum();
        let mut released = 0;
        for (_, file) in others {
            if total <= KEPT_BYTES && others.len() - released < KEPT_FILES {
                break;
            }
            total -= file.heap_bytes();
            released += 1;
        }
        let released: Vec<_> =
            self.files.drain(..released).map(|(id, file)| (id, file.bytes_read())).collect();
        released.into_iter().for_each(|(id, bytes)| self.add_spent(id, bytes));
    }

    /// Forgets the half of the programs of whose files least was read.
    fn forget_small(&mut self) {
        let mut spent: Vec<(ProgramId, u64)> = self.spent.drain().collect();
        spent.sort_unstable_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        spent.truncate(MAX_SPENT / 2);
        self.spent = spent.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of so many bytes.
    struct Fake(usize);

    impl KeptFile for Fake {
        fn heap_bytes(&self) -> usize {
            self.0
        }

        fn bytes_read(&self) -> u64 {
            7
        }
    }

    fn id(number: i64) -> ProgramId {
        ProgramId { pid: 7, began_ns: number }
    }

    #[test]
    fn files_are_released_by_number_and_by_size_but_not_the_last() {
        let mut kept = KeptFiles::default();
        for number in 0..500 {
            kept.add(id(number), Fake(1));
            kept.release();
        }
        assert_eq!(kept.files.len(), KEPT_FILES);
        assert_eq!((kept.spent(id(0)), kept.spent(id(499))), (7, 0));
        assert!(kept.take_up(id(0)).is_none());
        kept.add(id(500), Fake(2 * KEPT_BYTES));
        kept.release();
        assert!(kept.files.len() > 1);
        kept.take_up(id(499));
        kept.release();
        assert!(kept.take_up(id(500)).is_none() && kept.take_up(id(499)).is_some());
    }

    #[test]
    fn programs_of_which_much_was_read_are_remembered() {
        let mut kept = KeptFiles::<Fake>::default();
        kept.add_spent(id(0), 1000);
        (1..=MAX_SPENT as i64).for_each(|number| kept.add_spent(id(number), 1));
        assert_eq!((kept.spent.len(), kept.spent(id(0))), (MAX_SPENT / 2, 1000));
    }
}
