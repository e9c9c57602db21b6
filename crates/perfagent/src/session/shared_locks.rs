//! Locks in memory that processes share. Such a lock may have another address in each process, and has one place in the file behind the memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::time::{Duration, Instant};

use process::maps;
use recording::{FileIdentity, Module, ModuleKind};

/// Processes whose mappings are known at a time.
const MOST_PROCESSES: usize = 4096;
/// Shared mappings of one process that are known, and those of all.
const MOST_RANGES: usize = 4096;
const MOST_RANGES_OF_ALL: usize = 1 << 14;
/// A list of mappings is believed for this long: the process may map another file at an address.
const VALID: Duration = Duration::from_secs(1);
/// After a look at a process, the next one pauses for this many times the time that it took.
const PAUSE: u32 = 20;

/// The place of a shared lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedPlace {
    /// The file behind the memory. Memory without a file has one too, by the kernel's account (`/dev/zero`).
    pub(super) module: Module,
    /// Where the lock is in it.
    pub(super) offset: u64,
}

/// The shared mappings of processes.
#[derive(Debug, Default)]
pub(super) struct SharedLocks {
    /// By number and program of the process.
    processes: HashMap<(u32, u64), Known>,
}

/// The shared mappings of a process.
#[derive(Debug)]
struct Known {
    ranges: Vec<(Range<u64>, SharedPlace)>,
    read: Instant,
    /// No look before this time.
    due: Instant,
}

impl SharedLocks {
    /// The place of a lock by its address in a process. `None` if the memory is not shared, or the process has ended.
    pub(super) fn find(&mut self, pid: u32, exec_id: u64, address: u64) -> Option<SharedPlace> {
        let key = (pid, exec_id);
        if !self.processes.contains_key(&key) {
            let ranges: usize = self.processes.values().map(|known| known.ranges.len()).sum();
            if self.processes.len() >= MOST_PROCESSES || ranges >= MOST_RANGES_OF_ALL {
                self.processes.clear();
            }
            self.processes.insert(key, Known::read(pid));
        }
        let known = self.processes.get_mut(&key)?;
        let found = known.find(address);
        let is_old = found.is_none() || known.read.elapsed() > VALID;
        if !is_old || Instant::now() < known.due {
            return found;
        }
        *known = Known::read(pid);
        known.find(address)
    }
}

impl Known {
    fn read(pid: u32) -> Self {
        let begun = Instant::now();
        let ranges = File::open(format!("/proc/{pid}/maps")).ok().and_then(shared_ranges).unwrap_or_default();
        Self { ranges, read: begun, due: begun + PAUSE * begun.elapsed() }
    }

    fn find(&self, address: u64) -> Option<SharedPlace> {
        let (range, place) = self.ranges.iter().find(|(range, _)| range.contains(&address))?;
        let offset = place.offset.wrapping_add(address - range.start);
        Some(SharedPlace { offset, ..place.clone() })
    }
}

/// The shared mappings of a list, with the place of their beginning.
fn shared_ranges(file: impl Read) -> Option<Vec<(Range<u64>, SharedPlace)>> {
    let mut ranges = Vec::new();
    let read = maps::for_each(file, |entry| {
        if !entry.shared || ranges.len() >= MOST_RANGES {
            return;
        }
        let identity = FileIdentity {
            dev_major: entry.dev_major,
            dev_minor: entry.dev_minor,
            inode: entry.inode,
            ..FileIdentity::default()
        };
        let path = String::from_utf8_lossy(&maps::unescape(entry.path)).into_owned();
        let module = Module { path, build_id: None, kind: ModuleKind::NotElf, identity };
        ranges.push((entry.start..entry.end, SharedPlace { module, offset: entry.offset }));
    });
    read.ok().map(|_| ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7e0100000000-7e0100100000 rw-s 00002000 00:01 4071                       /memfd:lock (deleted)
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
";

    #[test]
    fn one_place_of_a_shared_file_is_one_lock_at_all_addresses() {
        let place_in = |maps: &str, address| {
            let ranges = shared_ranges(maps.as_bytes()).unwrap();
            Known { ranges, read: Instant::now(), due: Instant::now() }.find(address)
        };
        let place = place_in(MAPS, 0x7e01_0000_0100).unwrap();
        assert_eq!((place.offset, place.module.identity.inode), (0x2100, 4071));
        let elsewhere = MAPS.replace("7e01", "7e02");
        assert_eq!(place_in(&elsewhere, 0x7e02_0000_0100), Some(place));
        assert_eq!(place_in(MAPS, 0x7f00_0000_0010), None, "private memory");
        assert_eq!(place_in(MAPS, 0x10), None);
    }
}
