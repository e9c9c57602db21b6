//! The unwind table of one file: wanted, being compiled, in the kernel, or absent, and which processes use it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use kernel::{KernelMapping, MappingKind, TableHandle, TableShape};
use process::MappedFile;
use tables::Compiler;

use super::file_bytes::TableInput;
use super::room::Pauses;

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
    /// There is no room for it in the kernel's memory, or others needed its room more. It is tried again when samples need it.
    NoRoom(TableShape),
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
    /// The last epoch in which a sample was walked with it in user space, or needed it and found no room.
    pub(super) used: u32,
    /// It left the kernel for others, and no sample has needed it since.
    pub(super) left: bool,
    /// When it is tried again after it found no room.
    pub(super) pauses: Pauses,
}

impl FileTable {
    /// Nobody has asked for the table yet.
    pub(super) fn new(number: u64, file: Arc<MappedFile>) -> Self {
        Self {
            number,
            state: State::Wanted,
            file,
            users: HashSet::new(),
            unused_since: None,
            hits: 0,
            used: 0,
            left: false,
            pauses: Pauses::default(),
        }
    }

    /// How the walker goes through mappings of the file.
    pub(super) fn kind(&self) -> MappingKind {
        match &self.state {
            State::Wanted | State::Pending | State::NoRoom(_) => MappingKind::NotReady,
            State::Ready(handle) => KernelMapping::with_table(handle),
            State::None | State::Unanswered => MappingKind::FramePointers,
        }
    }

    /// A sample needs this table, in this epoch. Tables that most samples need are compiled first. True: it is compiled from now on.
    pub(super) fn want(&mut self, compiler: &Compiler, epoch: u32) -> bool {
        (self.used, self.left) = (epoch, false);
        match self.state {
            State::Pending => _ = compiler.bump(self.number),
            State::NoRoom(_) => self.hits += 1,
            _ => return self.submit(compiler, 1),
        }
        false
    }

    /// Has the table compiled unless that was asked for before. True: it is compiled from now on.
    pub(super) fn submit(&mut self, compiler: &Compiler, priority: u64) -> bool {
        if !matches!(self.state, State::Wanted)
            || !compiler.submit(self.number, priority, Box::new(TableInput(Arc::clone(&self.file))))
        {
            return false;
        }
        self.state = State::Pending;
        true
    }
}
