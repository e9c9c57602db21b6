//! The files with code that recorded processes map, each with its table, and which processes use them. What happens to one process costs as
//! much as it maps, whatever others map.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use kernel::{Kernel, TableHandle};
use process::{FileKey, MappedFile, OpeningFile};
use profile::BuildId;

use super::build_ids::BuildIds;
use super::file_table::{FileTable, State};
use super::kept_tables::{Unused, no_longer_kept};
use super::pool_room::Group;
use super::used_files::UsedFiles;

/// A file that is still to be opened, and the processes that map it.
struct Opening {
    file: Arc<OpeningFile>,
    users: HashSet<u32>,
}

impl Opening {
    fn is_awaited(&self) -> bool {
        !self.file.is_answered() && !self.users.is_empty()
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct FileTables {
    entries: HashMap<FileKey, FileTable>,
    /// Key by number of request.
    keys: HashMap<u64, FileKey>,
    next_number: u64,
    /// By address.
    opening: HashMap<usize, Opening>,
    used_files: UsedFiles,
    /// The files whose table is in the kernel.
    installed: BuildIds,
}

impl FileTables {
    /// The table of a file; made if it is not known. `user`: a running process that maps the file.
    pub(super) fn enter(&mut self, file: &Arc<MappedFile>, user: Option<u32>) -> &mut FileTable {
        let key = file.key();
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            let number = self.next_number;
            self.next_number += 1;
            self.keys.insert(number, key);
            FileTable::new(number, Arc::clone(file))
        });
        if let Some(pid) = user {
            entry.users.insert(pid);
            self.used_files.maps(pid, entry.number);
        }
        entry
    }

    /// A file that is still to be opened. `user`: as above.
    pub(super) fn enter_opening(&mut self, file: &Arc<OpeningFile>, user: Option<u32>) {
        let new = || Opening { file: Arc::clone(file), users: HashSet::new() };
        let address = Arc::as_ptr(file).addr();
        let opening = self.opening.entry(address).or_insert_with(new);
        if let Some(pid) = user {
            opening.users.insert(pid);
            self.used_files.maps_opening(pid, address);
        }
    }

    /// The table of a file, if it is known.
    pub(super) fn of_file(&mut self, file: &MappedFile) -> Option<&mut FileTable> {
        self.entries.get_mut(&file.key())
    }

    /// The table with this number.
    pub(super) fn get(&self, number: u64) -> Option<&FileTable> {
        self.entries.get(self.keys.get(&number)?)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut FileTable> {
        self.entries.get_mut(self.keys.get(&number)?)
    }

    /// A process has ended or has another image.
    pub(super) fn forget(&mut self, pid: u32) {
        let used = self.used_files.forget(pid);
        for number in used.numbers {
            if let Some(entry) = self.get_mut(number) {
                entry.users.remove(&pid);
            }
        }
        for address in used.opening {
            if let Some(opening) = self.opening.get_mut(&address) {
                opening.users.remove(&pid);
            }
        }
    }

    /// Files that processes wait for.
    pub(super) fn opening(&self) -> usize {
        self.opening.values().filter(|opening| opening.is_awaited()).count()
    }

    /// Forgets the files that nobody waits for any more.
    pub(super) fn forget_opened(&mut self) {
        self.opening.retain(|address, opening| {
            let stays = opening.is_awaited();
            if !stays {
                self.used_files.opened(opening.users.iter(), *address);
            }
            stays
        });
    }

    /// The table of a file is in the kernel.
    pub(super) fn installed(&mut self, number: u64, handle: Arc<TableHandle>) {
        let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) else { return };
        entry.state = State::Ready(handle);
        entry.pauses.has_room(Instant::now());
        self.installed.add(entry.file.build_id(), number);
    }

    /// It leaves. Gives the file.
    pub(super) fn leaves(&mut self, number: u64) -> Option<&mut FileTable> {
        let entry = self.keys.get(&number).and_then(|key| self.entries.get_mut(key))?;
        self.installed.remove(entry.file.build_id(), number);
        entry.state = State::Wanted;
        Some(entry)
    }

    /// The tables in the kernel of files with this build-id.
    pub(super) fn copies(&self, build_id: Option<&BuildId>) -> impl Iterator<Item = &Arc<TableHandle>> {
        let copies = self.installed.with(build_id).filter_map(|number| self.get(number));
        copies.filter_map(|entry| match &entry.state {
            State::Ready(handle) => Some(handle),
            _ => None,
        })
    }

    /// The tables in the kernel, each with the files that share it.
    pub(super) fn groups(&self, kernel: &Kernel) -> Vec<Group<'_>> {
        let mut groups: HashMap<usize, Group<'_>> = HashMap::new();
        for entry in self.entries.values() {
            let State::Ready(handle) = &entry.state else { continue };
            let new =
                || Group { handle: Arc::clone(handle), used: kernel.last_use(handle), files: Vec::new() };
            let group = groups.entry(Arc::as_ptr(handle).addr()).or_insert_with(new);
            group.used = group.used.max(entry.used);
            group.files.push(entry);
        }
        groups.into_values().collect()
    }

    /// Bytes of the tables in the kernel that a process uses.
    pub(super) fn bytes_of(&self, pid: u32) -> usize {
        let entries = self.used_files.of(pid).filter_map(|number| self.get(number));
        let ready = entries.filter_map(|entry| match &entry.state {
            State::Ready(handle) => Some(handle.bytes()),
            _ => None,
        });
        ready.sum()
    }

    /// Takes the files that no recorded process has mapped for a while, and those used least lately before if they are many. `keep`: there is
    /// memory for tables that nobody uses.
    pub(super) fn take_unused(&mut self, keep: bool) -> Vec<FileTable> {
        let now = Instant::now();
        let mut unused = Vec::new();
        for entry in self.entries.values_mut() {
            if !entry.users.is_empty() || matches!(entry.state, State::Pending) {
                entry.unused_since = None;
                continue;
            }
            let since = *entry.unused_since.get_or_insert(now);
            let bytes = match &entry.state {
                State::Ready(handle) if keep => Some(handle.bytes()),
                _ => None,
            };
            unused.push(Unused { number: entry.number, since, bytes });
        }
        let given_up = no_longer_kept(unused, now).into_iter();
        let taken = given_up.filter_map(|number| {
            let entry = self.entries.remove(&self.keys.remove(&number)?)?;
            self.installed.remove(entry.file.build_id(), number);
            Some(entry)
        });
        taken.collect()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &FileTable> {
        self.entries.values()
    }
}
