//! Addresses as places in what a process had mapped at that moment.

use crate::files::{FileTable, Kind, RecordedFile};
use crate::processes::Processes;
use crate::stacks::{Place, Within};

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
        Some(Kind::Anonymous) => Place { within: Within::Anonymous(pid), address },
        None => unknown,
    }
}
