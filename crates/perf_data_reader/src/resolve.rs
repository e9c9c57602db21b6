//! Addresses as places in what a process had mapped at that moment.

use std::ops::Range;

use crate::files::{FileTable, Kind, RecordedFile};
use crate::processes::{Processes, Region};
use crate::stacks::{Place, Within};

/// Neighbours in one direction that are looked at for one mapping.
const MAX_NEIGHBOURS: usize = 64;

/// Names are those at the last byte of a call.
fn lookup(address: u64, is_exact: bool) -> u64 {
    if is_exact { address } else { address.saturating_sub(1) }
}

/// The place of an address of the kernel.
pub(crate) fn kernel_place(address: u64, is_exact: bool) -> Place {
    Place { within: Within::Kernel, address: lookup(address, is_exact) }
}

/// The place of an address of a program.
pub(crate) fn user_place(
    processes: &Processes,
    files: &FileTable,
    pid: i32,
    address: u64,
    is_exact: bool,
) -> Place {
    let address = lookup(address, is_exact);
    let unknown = Place { within: Within::Unknown, address };
    let Some(region) = processes.region(pid, address) else { return unknown };
    let offset = (address - region.start).wrapping_add(region.offset);
    match files.get(region.file).map(RecordedFile::kind) {
        Some(Kind::File) => Place { within: Within::File(region.file), address: offset },
        Some(Kind::Vdso) => Place { within: Within::Vdso(region.file), address: offset },
        Some(Kind::Anonymous) => {
            let Range { start, end } = around(processes, files, pid, region);
            Place { within: Within::Anonymous { pid, start, end }, address }
        }
        None => unknown,
    }
}

/// The memory without a file around a mapping of such memory: code may lie across the border of two mappings.
fn around(processes: &Processes, files: &FileTable, pid: i32, region: Region) -> Range<u64> {
    let anonymous = |address: Option<u64>| {
        let found = processes.region(pid, address?)?;
        (files.get(found.file).map(RecordedFile::kind) == Some(Kind::Anonymous)).then_some(found)
    };
    let Region { mut start, mut end, .. } = region;
    for _ in 0..MAX_NEIGHBOURS {
        let (before, behind) = (anonymous(start.checked_sub(1)), anonymous(Some(end)));
        if before.is_none() && behind.is_none() {
            break;
        }
        start = before.map_or(start, |before| before.start);
        end = behind.map_or(end, |behind| behind.end);
    }
    start..end
}
