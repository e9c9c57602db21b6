//! What each process has mapped, and what its threads are called.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;

use crate::budget::{Budget, Full};

/// Processes and threads that have ended are remembered until this many others have: samples in their last moments come after it.
const KEPT: usize = 1024;
/// Bytes of a region, with its share of the tree.
const REGION: usize = 64;
/// Bytes of a process or a thread in its table.
const ENTRY: usize = 96;

/// A mapped range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Of `start` in the file.
    pub(crate) offset: u64,
    /// The number of the file.
    pub(crate) file: u32,
}

type Regions = BTreeMap<u64, Region>;

struct Process {
    regions: Arc<Regions>,
    /// Changes with each mapping: two equal addresses mean the same place only if this is equal.
    generation: u64,
    /// Bytes of the budget.
    charged: usize,
}

/// The processes and threads of the recording so far.
pub(crate) struct Processes {
    processes: HashMap<i32, Process>,
    threads: HashMap<i32, u32>,
    names: IndexSet<String>,
    ended: VecDeque<(i32, i32)>,
    generations: u64,
}

/// What the idle task is called, of which no record tells.
const IDLE: &str = "swapper";

impl Default for Processes {
    fn default() -> Self {
        let names = IndexSet::from([String::new(), IDLE.to_owned()]);
        Self {
            processes: HashMap::new(),
            threads: HashMap::from([(0, 1)]),
            names,
            ended: VecDeque::new(),
            generations: 0,
        }
    }
}

impl Processes {
    /// The number of the name of a thread.
    pub(crate) fn name_of(&self, tid: i32) -> u32 {
        self.threads.get(&tid).copied().unwrap_or(0)
    }

    /// The name with a number.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get_index(number as usize).map_or("", String::as_str)
    }

    pub(crate) fn generation(&self, pid: i32) -> u64 {
        self.processes.get(&pid).map_or(0, |process| process.generation)
    }

    /// What lies at an address.
    pub(crate) fn region(&self, pid: i32, address: u64) -> Option<Region> {
        let regions = &self.processes.get(&pid)?.regions;
        let (_, region) = regions.range(..=address).next_back()?;
        (address < region.end).then_some(*region)
    }

    pub(crate) fn rename(
        &mut self,
        (pid, tid): (i32, i32),
        name: String,
        is_exec: bool,
        budget: &mut Budget,
    ) -> Result<(), Full> {
        if is_exec {
            self.forget_mappings(pid, budget);
        }
        if !self.names.contains(&name) {
            budget.charge(name.len() + ENTRY)?;
        }
        let (number, _) = self.names.insert_full(name);
        self.call(tid, u32::try_from(number).unwrap_or(0), budget)
    }

    fn call(&mut self, tid: i32, name: u32, budget: &mut Budget) -> Result<(), Full> {
        if self.threads.insert(tid, name).is_none() {
            budget.charge(ENTRY)?;
        }
        Ok(())
    }

    fn forget_mappings(&mut self, pid: i32, budget: &mut Budget) {
        if let Some(process) = self.processes.remove(&pid) {
            budget.refund(process.charged);
        }
    }

    /// A process or a thread begins.
    pub(crate) fn fork(
        &mut self,
        (pid, tid): (i32, i32),
        (parent, parent_tid): (i32, i32),
        has_mappings: bool,
        budget: &mut Budget,
    ) -> Result<(), Full> {
        // The number belongs to another one now.
        self.ended.retain(|(_, ended)| *ended != tid);
        self.call(tid, self.name_of(parent_tid), budget)?;
        if pid == parent {
            return Ok(());
        }
        self.forget_mappings(pid, budget);
        if !has_mappings {
            return Ok(());
        }
        if let Some(regions) = self.processes.get(&parent).map(|parent| Arc::clone(&parent.regions)) {
            budget.charge(ENTRY)?;
            self.generations += 1;
            let process = Process { regions, generation: self.generations, charged: ENTRY };
            self.processes.insert(pid, process);
        }
        Ok(())
    }

    pub(crate) fn exit(&mut self, pid: i32, tid: i32, budget: &mut Budget) {
        self.ended.push_back((pid, tid));
        if self.ended.len() <= KEPT {
            return;
        }
        let Some((pid, tid)) = self.ended.pop_front() else { return };
        if pid == tid {
            self.forget_mappings(pid, budget);
        }
        if self.threads.remove(&tid).is_some() {
            budget.refund(ENTRY);
        }
    }

    /// A process maps a range, in place of what was there.
    pub(crate) fn map(&mut self, pid: i32, region: Region, budget: &mut Budget) -> Result<(), Full> {
        if region.start >= region.end {
            return Ok(());
        }
        self.generations += 1;
        let process = match self.processes.entry(pid) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                budget.charge(ENTRY)?;
                entry.insert(Process { regions: Arc::default(), generation: 0, charged: ENTRY })
            }
        };
        process.generation = self.generations;
        if Arc::strong_count(&process.regions) > 1 {
            // It shared them with its parent so far.
            let bytes = process.regions.len() * REGION;
            budget.charge(bytes)?;
            budget.work(process.regions.len())?;
            process.charged += bytes;
        }
        let regions = Arc::make_mut(&mut process.regions);
        make_room(regions, region.start, region.end);
        regions.insert(region.start, region);
        budget.charge(REGION)?;
        process.charged += REGION;
        Ok(())
    }
}

/// Cuts what lies in a range.
fn make_room(regions: &mut Regions, start: u64, end: u64) {
    let before = regions.range_mut(..start).next_back().map(|(_, region)| region);
    if let Some(before) = before.filter(|before| before.end > start) {
        let rest = Region { start: end, offset: before.offset.wrapping_add(end - before.start), ..*before };
        before.end = start;
        if rest.end > end {
            regions.insert(end, rest);
            return;
        }
    }
    while let Some((&first, &found)) = regions.range(start..end).next() {
        regions.remove(&first);
        if found.end > end {
            let offset = found.offset.wrapping_add(end - found.start);
            regions.insert(end, Region { start: end, offset, ..found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, file: u32) -> Region {
        Region { start, end, offset: start * 10, file }
    }

    #[test]
    fn later_mappings_replace_what_they_cover() {
        let (mut processes, mut budget) = (Processes::default(), Budget::default());
        for region in [region(10, 40, 1), region(20, 30, 2), region(5, 12, 3), region(28, 50, 4)] {
            processes.map(7, region, &mut budget).unwrap();
        }
        let found: Vec<_> =
            (0..60).map(|at| processes.region(7, at).map_or(0, |region| region.file)).collect();
        let mut expected = vec![0; 5];
        for (file, count) in [(3, 7), (1, 8), (2, 8), (4, 22), (0, 10)] {
            expected.extend(vec![file; count]);
        }
        assert_eq!(found, expected);
        processes.map(7, region(0, 100, 1), &mut budget).unwrap();
        processes.map(7, region(50, 60, 2), &mut budget).unwrap();
        let rest = processes.region(7, 60).unwrap();
        assert_eq!((rest.start, rest.end, rest.offset), (60, 100, 60));
    }

    #[test]
    fn a_child_has_the_mappings_of_its_parent_until_it_makes_its_own() {
        let (mut processes, mut budget) = (Processes::default(), Budget::default());
        processes.rename((1, 1), "sh".into(), false, &mut budget).unwrap();
        processes.map(1, region(10, 20, 1), &mut budget).unwrap();
        processes.fork((2, 2), (1, 1), true, &mut budget).unwrap();
        processes.fork((3, 3), (1, 1), false, &mut budget).unwrap();
        assert_eq!((processes.region(2, 15).unwrap().file, processes.region(3, 15)), (1, None));
        processes.map(2, region(10, 20, 2), &mut budget).unwrap();
        assert_eq!(processes.region(1, 15).unwrap().file, 1);
        assert_ne!(processes.generation(1), processes.generation(2));
        processes.rename((2, 2), "ls".into(), true, &mut budget).unwrap();
        assert_eq!(processes.region(2, 15), None);
        assert_eq!(processes.name(processes.name_of(2)), "ls");
        assert_eq!(processes.name(processes.name_of(3)), "sh");
        assert_eq!(processes.name(processes.name_of(0)), "swapper");
    }

    #[test]
    fn processes_that_multiply_their_mappings_reach_the_limit() {
        let (mut processes, mut budget) = (Processes::default(), Budget::with_limit(1 << 20));
        for at in 0..1000 {
            processes.map(1, region(at * 10, at * 10 + 5, 1), &mut budget).unwrap();
        }
        let mut multiply = |pid: i32| {
            processes.fork((pid, pid), (1, 1), true, &mut budget)?;
            processes.map(pid, region(20_000, 20_001, 2), &mut budget)
        };
        let count = (2..1000).take_while(|pid| multiply(*pid).is_ok()).count();
        assert!((10..20).contains(&count), "{count}");
    }

    #[test]
    fn what_ended_long_ago_is_forgotten_with_its_memory() {
        let (mut processes, mut budget) = (Processes::default(), Budget::default());
        let before = budget.used();
        for pid in 1..5_000 {
            processes.fork((pid, pid), (0, 0), true, &mut budget).unwrap();
            processes.map(pid, region(10, 20, 1), &mut budget).unwrap();
            processes.exit(pid, pid, &mut budget);
            assert!(processes.region(pid, 15).is_some());
        }
        assert!(budget.used() - before < 2 * KEPT * (REGION + 2 * ENTRY), "{}", budget.used());
    }
}
