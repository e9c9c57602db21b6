//! Makes room in the kernel's memory for tables and lists of mappings that found none: looks for it now and then, lets others leave as
//! [`plan`] says, and frees what has left.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use kernel::{Kernel, TableHandle, TableShape};

use super::eviction::{Held, Need, Shares, plan};
use super::evictions::Evictions;
use super::file_table::{FileTable, State};
use super::file_tables::FileTables;
use super::leaving::LeavingTables;
use super::pool_room::{Group, PoolRoom};
use super::room::Waiting;
use super::scarcity::Scarcity;
use crate::Warning;

/// What waits for room, and what leaves for it.
#[derive(Default)]
pub(super) struct RoomMaker {
    /// Lists of mappings that found no room in the kernel's memory.
    waiting: Waiting,
    /// Files whose table found no room there, by number.
    without_room: HashSet<u64>,
    leaving: LeavingTables<TableHandle>,
    evictions: Evictions,
    scarcity: Scarcity,
}

/// What is to be done after a look for room.
#[derive(Default)]
pub(super) struct Made {
    /// Files whose table fits now, by number.
    pub(super) fit: Vec<u64>,
    /// Processes whose mappings are to be written anew.
    pub(super) changed: HashSet<u32>,
}

impl RoomMaker {
    /// The present epoch: see [`Kernel::begin_epoch`].
    pub(super) fn epoch(&self) -> u32 {
        self.scarcity.epoch()
    }

    /// How often a table left the kernel for others, so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evictions.count()
    }

    /// The list of mappings of a process found no room.
    pub(super) fn add_list(&mut self, pid: u32, mappings: usize) {
        self.waiting.add(pid, mappings, Instant::now());
    }

    /// The list of mappings of a process was written, or it needs none any more.
    pub(super) fn has_list(&mut self, pid: u32) {
        self.waiting.forget(pid);
        self.leaving.no_longer_named_by(pid);
    }

    /// The table of a file found no room.
    pub(super) fn add_table(&mut self, entry: &mut FileTable, shape: TableShape) {
        entry.state = State::NoRoom(shape);
        entry.pauses.pause(Instant::now());
        self.without_room.insert(entry.number);
    }

    /// The table of a file is no longer waited for.
    pub(super) fn forget_table(&mut self, number: u64) {
        self.without_room.remove(&number);
    }

    /// Tables that have no room at present, but for those that left and are not needed.
    pub(super) fn missing(&self, files: &FileTables) -> u64 {
        let entries = self.without_room.iter().filter_map(|number| files.get(*number));
        entries.filter(|entry| !entry.left).count() as u64
    }

    /// Tells what left, and what is missing at the end.
    pub(super) fn warning(&self, files: &FileTables) -> Option<Warning> {
        let out = self.needed(files);
        self.evictions.warning(out.map(|entry| (entry.file.path(), entry.hits)))
    }

    /// The tables that are needed and found no room.
    fn needed<'a>(&self, files: &'a FileTables) -> impl Iterator<Item = &'a FileTable> {
        let entries = self.without_room.iter().filter_map(|number| files.get(*number));
        entries.filter(|entry| matches!(entry.state, State::NoRoom(_)) && entry.hits > 0)
    }

    /// Frees what has left, and finds room for what is needed.
    pub(super) fn make(&mut self, kernel: &mut Kernel, files: &mut FileTables) -> Made {
        let now = Instant::now();
        self.leaving.take_unnamed().into_iter().for_each(|table| kernel.remove_table(table));
        let waits = !self.without_room.is_empty() || self.waiting.has_processes();
        self.scarcity.look(kernel, waits, now);
        if !waits || !self.waiting.is_due(now) {
            return Made::default();
        }
        let steps = self.planned(kernel, files, now);
        for number in steps.tables_out {
            if let Some(entry) = files.get_mut(number) {
                entry.pauses.pause(now);
            }
        }
        steps.lists_out.into_iter().for_each(|pid| self.waiting.pause(pid, now));
        let mut changed = steps.lists;
        for (numbers, handle) in steps.leave {
            changed.extend(self.evict(files, &numbers, handle));
        }
        Made { fit: steps.tables, changed }
    }

    /// Plans for what is due.
    fn planned(&self, kernel: &mut Kernel, files: &FileTables, now: Instant) -> Steps {
        let due = self.needed(files).filter(|entry| entry.pauses.is_due(now) && !entry.users.is_empty());
        let tables: Vec<(&FileTable, &TableShape)> = due.filter_map(with_shape).collect();
        let lists: Vec<(u32, HashSet<u32>, TableShape)> = self
            .waiting
            .due(now)
            .map(|(pid, mappings)| (pid, HashSet::from([pid]), TableShape::of_mappings(mappings)))
            .collect();
        if tables.is_empty() && lists.is_empty() {
            return Steps::default();
        }
        let epoch = self.scarcity.epoch();
        let of_tables = tables.iter().map(|(entry, shape)| {
            let need =
                Need { needed: entry.used, hits: entry.hits, bytes: shape.bytes(), users: &entry.users };
            (need, *shape)
        });
        // Without its list, no stack of a process is walked.
        let of_lists = lists.iter().map(|(_, users, shape)| {
            (Need { needed: epoch, hits: u64::MAX, bytes: shape.bytes(), users }, shape)
        });
        let (needs, shapes): (Vec<Need<'_>>, Vec<&TableShape>) = of_tables.chain(of_lists).unzip();
        let groups = files.groups(kernel);
        let held: Vec<Held<'_>> = groups.iter().map(Group::held).collect();
        let shares = Shares::new(kernel.table_room().limit_bytes / 2, |pid| files.bytes_of(pid));
        let mut soon = PoolRoom::new(kernel.table_trial(true), &groups, &shapes);
        self.leaving.iter().for_each(|table| soon.frees(table));
        let rooms = (PoolRoom::new(kernel.table_trial(false), &groups, &shapes), soon);
        let plan = plan((&held, &needs), shares, epoch, rooms);
        let mut steps = Steps::default();
        for at in plan.fit {
            match tables.get(at) {
                Some((entry, _)) => steps.tables.push(entry.number),
                None => steps.lists.extend(lists.get(at - tables.len()).map(|(pid, ..)| pid)),
            }
        }
        for at in plan.stay_out {
            match tables.get(at) {
                Some((entry, _)) => steps.tables_out.push(entry.number),
                None => steps.lists_out.extend(lists.get(at - tables.len()).map(|(pid, ..)| pid)),
            }
        }
        let leave = plan.leave.iter().filter_map(|at| groups.get(*at));
        steps.leave = leave.map(|group| (group.numbers(), Arc::clone(&group.handle))).collect();
        steps
    }

    /// A table leaves the kernel, for all files that share it. Returns the processes whose lists of mappings name it.
    fn evict(&mut self, files: &mut FileTables, numbers: &[u64], handle: Arc<TableHandle>) -> HashSet<u32> {
        let mut named_by = HashSet::new();
        for number in numbers {
            let Some(entry) = files.leaves(*number) else { continue };
            tracing::debug!(target: "perfagent", path = entry.file.path(), "unwind table: leaves for others");
            if !entry.users.is_empty() {
                (entry.hits, entry.used, entry.left) = (0, 0, true);
                self.add_table(entry, handle.shape().clone());
                self.evictions.add();
            }
            named_by.extend(&entry.users);
        }
        self.leaving.add(handle, &named_by);
        named_by
    }
}

/// A plan by numbers of files and processes.
#[derive(Default)]
struct Steps {
    tables: Vec<u64>,
    tables_out: Vec<u64>,
    lists: HashSet<u32>,
    lists_out: Vec<u32>,
    /// Tables that leave, each with the files that share it.
    leave: Vec<(Vec<u64>, Arc<TableHandle>)>,
}

fn with_shape(entry: &FileTable) -> Option<(&FileTable, &TableShape)> {
    match &entry.state {
        State::NoRoom(shape) => Some((entry, shape)),
        _ => None,
    }
}
