//! Which files each process maps, so that its end costs as much as it maps, whatever others map.

use std::collections::{HashMap, HashSet};

/// The files of processes: those with a table by number, and those that are still to be opened by address.
#[derive(Default)]
pub(super) struct UsedFiles(HashMap<u32, Used>);

/// The files of one process.
#[derive(Default)]
pub(super) struct Used {
    pub(super) numbers: HashSet<u64>,
    pub(super) opening: HashSet<usize>,
}

impl UsedFiles {
    /// A process maps a file.
    pub(super) fn maps(&mut self, pid: u32, number: u64) {
        self.0.entry(pid).or_default().numbers.insert(number);
    }

    /// A process maps a file that is still to be opened.
    pub(super) fn maps_opening(&mut self, pid: u32, address: usize) {
        self.0.entry(pid).or_default().opening.insert(address);
    }

    /// A file that some processes map need not be opened any more.
    pub(super) fn opened<'a>(&mut self, pids: impl Iterator<Item = &'a u32>, address: usize) {
        for pid in pids {
            if let Some(used) = self.0.get_mut(pid) {
                used.opening.remove(&address);
            }
        }
    }

    /// The numbers of the files that a process maps.
    pub(super) fn of(&self, pid: u32) -> impl Iterator<Item = u64> {
        self.0.get(&pid).into_iter().flat_map(|used| used.numbers.iter().copied())
    }

    /// The process has ended, or has another image. Gives what it mapped.
    pub(super) fn forget(&mut self, pid: u32) -> Used {
        self.0.remove(&pid).unwrap_or_default()
    }
}
