//! What the programs know of the processes that are recorded.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;
use crate::abi::control;
use crate::control_words::ControlWords;
use crate::mappings::{KernelMapping, MAPPING_WORDS, mapping_words};
use crate::process_record::{PROC_WAKER, RecordedProcess, proc_bytes, proc_exec_id, recorded_process};
use crate::table_pool::TablePool;

/// A process, to be made known with its mappings.
#[derive(Debug)]
pub struct KernelProcess<'a> {
    /// Its number in the agent's PID namespace.
    pub pid: u32,
    /// Tells the programs apart that one process runs one after the other, and is part of every stack's hash: since when
    /// this one is known (CLOCK_MONOTONIC). The BPF programs set it anew at fork and exec; an exec_id that they have stays
    /// unless it is older.
    pub exec_id: u64,
    /// Sorted by start, not overlapping.
    pub mappings: &'a [KernelMapping],
    /// It is not recorded; its stacks tell who woke a thread that is.
    pub waker_only: bool,
}

pub(crate) struct Processes {
    map: MapHandle,
    /// What tells the programs that they have to look at `map` again.
    words: ControlWords,
    changed: u64,
    generation: u32,
    lists: HashMap<u32, (u32, u32)>,
}

impl Processes {
    pub(crate) fn new(map: MapHandle, words: ControlWords) -> Self {
        Self { map, words, changed: 0, generation: 0, lists: HashMap::new() }
    }

    /// Makes a process known (`new`), or changes one that the programs still know. False: it is gone.
    pub(crate) fn set(
        &mut self,
        pool: &mut TablePool,
        process: &KernelProcess<'_>,
        new: bool,
    ) -> Result<bool, Error> {
        // Without room the programs are told of no mappings: those that they have are not this process's any more.
        let placed = place(pool, process.mappings);
        let list = *placed.as_ref().unwrap_or(&(0, 0));
        let count = list.1 / MAPPING_WORDS;
        self.generation = self.generation.wrapping_add(1);
        let flags = if process.waker_only { PROC_WAKER } else { 0 };
        // An exec between this look and the update below is overwritten; its record comes, and with it the next update.
        let exec_id = self.exec_id(process.pid).unwrap_or(0).max(process.exec_id);
        let value = proc_bytes(list.0, count, self.generation, flags, exec_id);
        let how = if new { MapFlags::ANY } else { MapFlags::EXIST };
        let known = match self.map.update(&process.pid.to_ne_bytes(), &value, how) {
            Ok(()) => true,
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => false,
            Err(source) => {
                pool.give(list.0, list.1);
                return Err(Error::Map { action: "enter a process into", map: "procs", source });
            }
        };
        let old = if known { self.lists.insert(process.pid, list) } else { Some(list) };
        if let Some((start, words)) = old.filter(|old| old.1 > 0) {
            pool.give(start, words);
        }
        self.tell();
        placed.map(|_| known)
    }

    /// Forgets a process that has ended before a time, but not another one that has its number since then.
    pub(crate) fn remove(&mut self, pool: &mut TablePool, pid: u32, ended_ns: u64) {
        // The exit program was there first, as a rule.
        let exec_id = self.exec_id(pid);
        if exec_id.is_some_and(|exec_id| exec_id > ended_ns) {
            return;
        }
        if let Some((start, words)) = self.lists.remove(&pid).filter(|list| list.1 > 0) {
            pool.give(start, words);
        }
        if exec_id.is_some() {
            let _ = self.map.delete(&pid.to_ne_bytes());
            self.tell();
        }
    }

    /// After each change: what the programs remember does not hold any more.
    fn tell(&mut self) {
        self.changed += 1;
        self.words.set(control::CHANGED_BY_USER_SPACE, self.changed);
    }

    /// Each process. One that comes or goes meanwhile may be missing.
    pub(crate) fn all(&self) -> Result<Vec<RecordedProcess>, Error> {
        let mut all = Vec::new();
        // The kernel begins anew at a key that was removed meanwhile.
        for key in self.map.keys().take(2 * self.map.max_entries() as usize) {
            let value = self.map.lookup(&key, MapFlags::ANY);
            let value = value.map_err(|source| Error::Map { action: "read", map: "procs", source })?;
            all.extend(value.and_then(|value| recorded_process(&key, &value)));
        }
        Ok(all)
    }

    /// The exec_id that the programs have of a process: new after fork and exec, before user space knows of them.
    pub(crate) fn exec_id(&self, pid: u32) -> Option<u64> {
        let value = self.map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()??;
        proc_exec_id(&value)
    }
}

/// Writes mappings into the table pool: where, and how many words.
fn place(pool: &mut TablePool, mappings: &[KernelMapping]) -> Result<(u32, u32), Error> {
    let words = mappings.len() as u32 * MAPPING_WORDS;
    if words == 0 {
        return Ok((0, 0));
    }
    let start = pool.take(words, MAPPING_WORDS, false)?;
    if let Err(error) = pool.write(start, mappings.iter().flat_map(mapping_words)) {
        pool.give(start, words);
        return Err(error);
    }
    Ok((start, words))
}
