//! The recorded processes and their mappings, in the map `procs` and the table pool.

use std::collections::HashSet;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;
use crate::abi::control;
use crate::control_words::ControlWords;
use crate::life::{self, LifeCounts};
use crate::mapping_lists::{List, MappingLists};
use crate::mappings::{KernelMapping, MAPPING_WORDS, mapping_words};
use crate::memory::ProcessPlaces;
use crate::process_record::{
    PROC_OTHER_KERNEL_STACKS, PROC_WAKER, RecordedProcess, proc_bytes, proc_epoch, proc_exec_id, proc_flags,
    proc_generation, proc_python, recorded_process, with_flags, with_python,
};
use crate::python::{Python, Pythons};
use crate::table_pool::TablePool;

/// A process to record, with its mappings.
#[derive(Debug)]
pub struct KernelProcess<'a> {
    /// Its number in the agent's PID namespace.
    pub pid: u32,
    /// Distinguishes the programs that one process runs one after the other, and is part of the hash of each stack. It is the
    /// time since which this one is known (CLOCK_MONOTONIC). The BPF programs set a new one at fork and exec; an update
    /// never replaces their exec_id by an older one.
    pub exec_id: u64,
    /// Sorted by start, not overlapping.
    pub mappings: &'a [KernelMapping],
    /// It is not recorded; its stacks only show who woke a recorded thread.
    pub waker_only: bool,
}

/// When a process was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Its number in the agent's PID namespace.
    pub pid: u32,
    /// The last epoch in which a program took a stack of it.
    pub epoch: u32,
    /// Bytes of its mappings in the table pool.
    pub mapping_bytes: usize,
}

pub(crate) struct Processes {
    map: MapHandle,
    life_counts: MapHandle,
    /// A change of a control word tells the programs to read `map` again.
    words: ControlWords,
    changed: u64,
    epoch: u32,
    generation: u32,
    lists: MappingLists,
    pythons: Pythons,
    /// Kernel frames are taken by default.
    kernel_stacks: bool,
}

impl Processes {
    /// Finds the maps by name. `kernel_stacks`: kernel frames are taken by default.
    pub(crate) fn find(
        map: impl Fn(&'static str) -> Result<MapHandle, Error>,
        words: ControlWords,
        kernel_stacks: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            map: map("procs")?,
            life_counts: map("life_counts")?,
            words,
            changed: 0,
            epoch: 0,
            generation: 0,
            lists: MappingLists::default(),
            pythons: Pythons::new(map("pythons")?),
            kernel_stacks,
        })
    }

    /// Adds a process (`new`), or updates one that the programs still know. Returns false if they no longer know it.
    pub(crate) fn set(
        &mut self,
        pool: &mut TablePool,
        process: &KernelProcess<'_>,
        new: bool,
    ) -> Result<bool, Error> {
        // The update below may overwrite an exec that happens after this read. The report of that exec causes another update.
        let before = self.value(process.pid);
        if before.is_none() && !new {
            return Ok(false);
        }
        let same = self.lists.get(process.pid);
        let same = same.filter(|list| is_list_of(pool, list, process.mappings));
        // If the pool is full, the process gets an empty list: its old mappings are out of date.
        let placed = match same {
            Some(list) => Ok(list),
            None => place(pool, process.mappings),
        };
        let mut list = placed.as_ref().copied().unwrap_or_default();
        let is_known_list =
            same.is_some() && before.as_deref().and_then(proc_generation) == Some(list.generation);
        if !is_known_list {
            self.generation = self.generation.wrapping_add(1);
            list.generation = self.generation;
        }
        let exec_id = before.as_deref().and_then(proc_exec_id).unwrap_or(0).max(process.exec_id);
        let kept = before.as_deref().and_then(proc_flags).unwrap_or(0) & PROC_OTHER_KERNEL_STACKS;
        let flags = if process.waker_only { PROC_WAKER } else { 0 } | kept;
        // An exec forgets the interpreter.
        let same_program = before.as_deref().and_then(proc_exec_id) == Some(exec_id);
        let python = before.as_deref().filter(|_| same_program).and_then(proc_python).unwrap_or(0);
        let count = list.words / MAPPING_WORDS;
        let epoch = before.as_deref().and_then(proc_epoch).unwrap_or(self.epoch);
        let value = proc_bytes((list.start, count), list.generation, flags, python, exec_id, epoch);
        if before.as_deref() == Some(&value) {
            return placed.map(|_| true);
        }
        let how = if new { MapFlags::ANY } else { MapFlags::EXIST };
        let known = match self.map.update(&process.pid.to_ne_bytes(), &value, how) {
            Ok(()) => true,
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => false,
            Err(source) => {
                if same.is_none() {
                    list.give(pool);
                }
                return Err(Error::Map { action: "enter a process into", map: "procs", source });
            }
        };
        let old = match known {
            true => self.lists.insert(process.pid, list),
            false => Some(list),
        };
        if let Some(old) = old.filter(|_| same.is_none()) {
            old.give(pool);
        }
        self.tell();
        placed.map(|_| known)
    }

    /// Forgets a process that ended before `ended_ns`, but not a later process with the same number.
    pub(crate) fn remove(&mut self, pool: &mut TablePool, pid: u32, ended_ns: u64) {
        // As a rule the exit program has already removed the entry.
        let exec_id = self.exec_id(pid);
        if exec_id.is_some_and(|exec_id| exec_id > ended_ns) {
            return;
        }
        if let Some(list) = self.lists.remove(pid) {
            list.give(pool);
        }
        if exec_id.is_some() {
            let _ = self.map.delete(&pid.to_ne_bytes());
            self.tell();
        }
    }

    /// Whether forks and exits of processes that are not recorded are reported too.
    pub(crate) fn tell_all_lives(&self, on: bool) {
        self.words.set(control::TELLS_ALL_LIVES, on.into());
    }

    /// The programs' counts of process life.
    pub(crate) fn life_counts(&self) -> Result<LifeCounts, Error> {
        life::counts(&self.life_counts)
    }

    /// The current epoch.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Begins the next epoch, and gives its number. From now on programs note it in the processes and tables that they use.
    pub(crate) fn begin_epoch(&mut self) -> u32 {
        self.epoch += 1;
        self.words.set(control::EPOCH, self.epoch.into());
        self.tell();
        self.epoch
    }

    /// The places for processes. A process that the programs have just met may not count yet.
    pub(crate) fn places(&self) -> ProcessPlaces {
        let all = self.map.max_entries() as usize;
        ProcessPlaces { all, taken: self.lists.len(), mapping_bytes: 4 * self.lists.words() }
    }

    /// The processes, and for each the last epoch in which a program took a stack of it.
    pub(crate) fn last_uses(&self) -> Vec<ProcessUse> {
        let last = |(pid, list): (u32, List)| {
            let epoch = proc_epoch(&self.value(pid)?)?;
            Some(ProcessUse { pid, epoch, mapping_bytes: 4 * list.words as usize })
        };
        self.lists.iter().filter_map(last).collect()
    }

    /// Forgets a process that lives, unless a program took a stack of it after this epoch. False: it did.
    pub(crate) fn forget(&mut self, pool: &mut TablePool, pid: u32, epoch: u32) -> bool {
        if self.value(pid).as_deref().and_then(proc_epoch).is_some_and(|last| last > epoch) {
            return false;
        }
        let _ = self.map.delete(&pid.to_ne_bytes());
        if let Some(list) = self.lists.remove(pid) {
            list.give(pool);
        }
        self.tell();
        true
    }

    /// Tells the programs after each change that their cached copies are out of date.
    fn tell(&mut self) {
        self.changed += 1;
        self.words.set(control::CHANGED_BY_USER_SPACE, self.changed);
    }

    /// All processes. One that is added or removed meanwhile may be missing.
    pub(crate) fn all(&self) -> Result<Vec<RecordedProcess>, Error> {
        let mut all = Vec::new();
        // The kernel starts from the beginning if the current key was removed, hence the bound.
        for key in self.map.keys().take(2 * self.map.max_entries() as usize) {
            let value = self.map.lookup(&key, MapFlags::ANY);
            let value = value.map_err(|source| Error::Map { action: "read", map: "procs", source })?;
            all.extend(value.and_then(|value| recorded_process(&key, &value)));
        }
        Ok(all)
    }

    /// The programs' exec_id of a process. It changes at fork and exec, before user space learns of them.
    pub(crate) fn exec_id(&self, pid: u32) -> Option<u64> {
        proc_exec_id(&self.value(pid)?)
    }

    /// Whether the programs record a process, not only its wake-ups.
    pub(crate) fn is_recorded(&self, pid: u32) -> bool {
        self.value(pid).as_deref().and_then(proc_flags).is_some_and(|flags| flags & PROC_WAKER == 0)
    }

    fn value(&self, pid: u32) -> Option<Vec<u8>> {
        self.map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()?
    }

    /// Gives a process the interpreter that it runs, as long as it runs the program of this `exec_id`; none if there is no interpreter
    /// that the programs can follow, or no room for it. Its children have it too. False: the process has no interpreter now.
    pub(crate) fn set_python(
        &mut self,
        pid: u32,
        exec_id: u64,
        python: Option<&Python>,
    ) -> Result<bool, Error> {
        let number = match python {
            Some(python) => self.pythons.number(python, || pythons_in_use(&self.map))?,
            None => 0,
        };
        let Some(value) = self.value(pid) else { return Ok(false) };
        // With the whole system as target, the programs have known the process only since its first sample.
        if proc_exec_id(&value).is_none_or(|known| known < exec_id) {
            return Ok(false);
        }
        if let Some(value) = with_python(value, number) {
            self.change(pid, &value)?;
        }
        Ok(number != 0)
    }

    /// Replaces the record of a process. False: the programs do not know it.
    fn change(&mut self, pid: u32, value: &[u8]) -> Result<bool, Error> {
        match self.map.update(&pid.to_ne_bytes(), value, MapFlags::EXIST) {
            Ok(()) => self.tell(),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(Error::Map { action: "change a process in", map: "procs", source }),
        }
        Ok(true)
    }

    /// Whether kernel frames are taken of a process. Its children and its later programs do the same. False: the programs do not know the
    /// process.
    pub(crate) fn set_kernel_stacks(&mut self, pid: u32, on: bool) -> Result<bool, Error> {
        let other = on != self.kernel_stacks;
        let Some(value) = self.value(pid) else { return Ok(false) };
        let flags = proc_flags(&value).unwrap_or(0) & !PROC_OTHER_KERNEL_STACKS;
        let flags = flags | if other { PROC_OTHER_KERNEL_STACKS } else { 0 };
        let Some(value) = with_flags(value, flags) else { return Ok(false) };
        self.change(pid, &value)
    }
}

/// The numbers of interpreters that processes have.
fn pythons_in_use(procs: &MapHandle) -> HashSet<u16> {
    let keys = procs.keys().take(2 * procs.max_entries() as usize);
    let values = keys.filter_map(|key| procs.lookup(&key, MapFlags::ANY).ok()?);
    values.filter_map(|value| proc_python(&value)).collect()
}

/// Whether a list of the table pool has these mappings and no others. Then it need not be written again.
fn is_list_of(pool: &TablePool, list: &List, mappings: &[KernelMapping]) -> bool {
    list.words == mappings.len() as u32 * MAPPING_WORDS
        && pool.holds(list.start, mappings.iter().flat_map(mapping_words))
}

/// Writes mappings into the table pool.
fn place(pool: &mut TablePool, mappings: &[KernelMapping]) -> Result<List, Error> {
    let words = mappings.len() as u32 * MAPPING_WORDS;
    if words == 0 {
        return Ok(List::default());
    }
    let start = pool.take(words, MAPPING_WORDS, false)?;
    let list = List { start, words, generation: 0 };
    if let Err(error) = pool.write(start, mappings.iter().flat_map(mapping_words)) {
        list.give(pool);
        return Err(error);
    }
    Ok(list)
}
