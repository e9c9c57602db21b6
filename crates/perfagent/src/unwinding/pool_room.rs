//! The room for a plan of evictions, judged by what the kernel side would allocate.

use std::collections::HashSet;
use std::sync::Arc;

use kernel::{TableHandle, TableShape, TableTrial};

use super::eviction::{Held, Room};
use super::file_table::FileTable;

/// A table in the kernel, and the files that share it.
pub(super) struct Group<'a> {
    pub(super) handle: Arc<TableHandle>,
    /// The last epoch in which it was used.
    pub(super) used: u32,
    pub(super) files: Vec<&'a FileTable>,
}

impl<'a> Group<'a> {
    pub(super) fn held(&self) -> Held<'a> {
        let users: Vec<&HashSet<u32>> = self.files.iter().map(|file| &file.users).collect();
        Held { used: self.used, bytes: self.handle.bytes(), users }
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.files.iter().map(|file| file.number).collect()
    }
}

/// A copy of the kernel side's free memory.
#[derive(Clone)]
pub(super) struct PoolRoom<'a> {
    trial: TableTrial,
    held: &'a [Group<'a>],
    needs: &'a [&'a TableShape],
}

impl<'a> PoolRoom<'a> {
    pub(super) fn new(trial: TableTrial, held: &'a [Group<'a>], needs: &'a [&'a TableShape]) -> Self {
        Self { trial, held, needs }
    }

    /// As if a table that leaves already was free.
    pub(super) fn frees(&mut self, table: &TableHandle) {
        self.trial.free(table);
    }
}

impl Room for PoolRoom<'_> {
    fn free(&mut self, held: usize) {
        self.trial.free(&self.held[held].handle);
    }

    fn take(&mut self, need: usize) -> bool {
        self.trial.take(self.needs[need])
    }

    fn may_take(&self, need: usize) -> bool {
        self.trial.may_hold(self.needs[need])
    }
}
