//! The unwind table of one file: wanted, being compiled, in the kernel, or absent, and which processes use it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use kernel::{KernelMapping, MappingKind, TableHandle};
use process::MappedFile;
use tables::Compiler;

use super::file_bytes::TableInput;

/// How far the table of a file is.
pub(super) enum State {
    /// Not requested yet.
    Wanted,
    /// Being compiled.
    Pending,
    /// In the kernel. Copies of a file share one table.
    Ready(Arc<TableHandle>),
    /// The file has no unwind information; frame pointers are followed.
    None,
    /// Its file system does not answer; frame pointers are followed until it does.
    Unanswered,
    /// It does not fit into the kernel's memory. It is tried again when there is room for so many bytes.
    NoRoom(usize),
}

/// The table of one file, and who uses it.
pub(super) struct FileTable {
    pub(super) number: u64,
    pub(super) state: State,
    pub(super) file: Arc<MappedFile>,
    /// Running processes whose mappings in the kernel name the file.
    pub(super) users: HashSet<u32>,
    /// Since when it is known to have none.
    pub(super) unused_since: Option<Instant>,
    /// Samples that needed the table since it found no room.
    pub(super) hits: u64,
}

impl FileTable {
    /// Nobody has asked for the table yet.
    pub(super) fn new(number: u64, file: Arc<MappedFile>) -> Self {
        Self { number, state: State::Wanted, file, users: HashSet::new(), unused_since: None, hits: 0 }
    }

    /// How the walker goes through mappings of the file.
    pub(super) fn kind(&self) -> MappingKind {
        match &self.state {
            State::Wanted | State::Pending | State::NoRoom(_) => MappingKind::NotReady,
            State::Ready(handle) => KernelMapping::with_table(handle),
            State::None | State::Unanswered => MappingKind::FramePointers,
        }
    }

    /// A sample needs this table. Tables that most samples need are compiled first.
    pub(super) fn want(&mut self, compiler: &Compiler) {
        match self.state {
            State::Pending => _ = compiler.bump(self.number),
            State::NoRoom(_) => self.hits += 1,
            _ => self.submit(compiler, 1),
        }
    }

    /// Has the table compiled unless that was asked for before.
    pub(super) fn submit(&mut self, compiler: &Compiler, priority: u64) {
        if !matches!(self.state, State::Wanted) {
            return;
        }
        if compiler.submit(self.number, priority, Box::new(TableInput(Arc::clone(&self.file)))) {
            self.state = State::Pending;
        }
    }
}
