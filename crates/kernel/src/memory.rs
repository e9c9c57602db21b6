//! Kernel memory of the maps. Large hash tables take memory for what is in them, where the kernel can allocate in every context
//! in which a program may run; elsewhere they take all of it when they are made. Either way a table holds as many elements.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle, MapType};

/// Kernel memory of the maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Unwind tables and mappings.
    pub table_pool_bytes: usize,
    /// Everything else. Tables that grow count with the most that they had.
    pub fixed_bytes: usize,
}

/// Kernel memory for tables and mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableRoom {
    /// What they may take.
    pub limit_bytes: usize,
    /// What is left of it, in however many pieces.
    pub free_bytes: usize,
    /// What was freed and is used again soon, when no program reads it any more.
    pub soon_free_bytes: usize,
}

/// Places for processes that the programs know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessPlaces {
    /// All of them.
    pub all: usize,
    /// Those that are taken.
    pub taken: usize,
    /// Bytes that the mappings of these processes take of the memory for tables and mappings.
    pub mapping_bytes: usize,
}

/// The hash tables whose size is a bound for a crowd, which few captures meet.
const GROWING: [&str; 13] = [
    "live_objects",
    "go_waits",
    "kernel_waits",
    "totals_a",
    "totals_b",
    "seam_records",
    "lock_holders",
    "process_schedules_a",
    "process_schedules_b",
    "process_buckets_a",
    "process_buckets_b",
    "process_counters_a",
    "process_counters_b",
];

/// Whether a map takes memory element by element, if the kernel can do that.
pub(crate) fn grows(map: &str) -> bool {
    GROWING.contains(&map)
}

/// Whether hash tables of tracing programs can allocate elements in interrupts and under the scheduler's locks, from reserves of
/// each CPU (since Linux 6.1). An earlier kernel refuses such tables to programs of perf events.
pub(crate) fn tables_can_grow() -> bool {
    fs::read("/sys/kernel/btf/vmlinux").is_ok_and(|btf| names(&btf, "bpf_mem_alloc"))
}

/// Whether type information in the format of the kernel (BTF) has this name.
fn names(btf: &[u8], name: &str) -> bool {
    // struct btf_header: behind it stand the types and the strings, at offsets from its end.
    let word = |at: usize| {
        let bytes = btf.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_ne_bytes(*bytes)).ok()
    };
    let strings = || {
        let begin = word(4)?.checked_add(word(16)?)?;
        btf.get(begin..begin.checked_add(word(20)?)?)
    };
    let Some(strings) = strings() else { return false };
    strings.split(|byte| *byte == 0).any(|string| string == name.as_bytes())
}

/// Counts the memory of maps.
#[derive(Debug)]
pub(crate) struct MapMemory {
    fixed: usize,
    growing: Vec<MapHandle>,
    /// The most that the growing ones had together.
    most: usize,
}

impl MapMemory {
    /// `growing`: those that grow; the others have `fixed` bytes.
    pub(crate) fn new(fixed: usize, growing: Vec<MapHandle>) -> Self {
        let mut memory = Self { fixed, growing, most: 0 };
        memory.note();
        memory
    }

    /// Takes notice of what is in the tables. To be called before they are emptied.
    pub(crate) fn note(&mut self) {
        self.most = self.most.max(self.growing.iter().map(growing_bytes).sum());
    }

    /// All together, the growing ones with the most that they had.
    pub(crate) fn bytes(&self) -> usize {
        self.fixed + self.most
    }
}

/// Memory of a hash table that grows, as the kernel tells. Before Linux 6.4 it tells that of a full one.
pub(crate) fn growing_bytes(map: &MapHandle) -> usize {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd()));
    let bytes = told.ok().and_then(|told| {
        let line = told.lines().find_map(|line| line.strip_prefix("memlock:"))?;
        line.trim().parse().ok()
    });
    bytes.unwrap_or_else(|| map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries()))
}

/// Memory of a map at its full size.
pub(crate) fn map_bytes(kind: MapType, key_size: u32, value_size: u32, entries: u32) -> usize {
    let [key, value] = [key_size, value_size].map(|size| size.next_multiple_of(8) as usize);
    let entries = entries as usize;
    if kind == MapType::RingBuf {
        entries
    } else if kind.is_hash_map() {
        // The head of an element (struct htab_elem) and that of a bucket.
        (48 + key + value) * entries + 16 * entries.next_power_of_two()
    } else {
        value * entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_among_the_strings_of_type_information_only() {
        let strings = b"\0bpf_mem_alloc_init\0bpf_mem_alloc\0";
        let mut btf = vec![0; 24];
        btf[4..8].copy_from_slice(&24u32.to_ne_bytes());
        btf[16..20].copy_from_slice(&14u32.to_ne_bytes());
        btf[20..24].copy_from_slice(&(strings.len() as u32).to_ne_bytes());
        btf.extend_from_slice(b"\0of_the_types\0");
        btf.extend_from_slice(strings);
        assert!(names(&btf, "bpf_mem_alloc"));
        assert!(!names(&btf, "bpf_mem") && !names(&btf, "of_the_types"));
        for length in 0..btf.len() {
            assert!(!names(&btf[..length], "bpf_mem_alloc"), "{length}");
        }
        btf[4..8].fill(0xff);
        assert!(!names(&btf, "bpf_mem_alloc"));
    }
}
