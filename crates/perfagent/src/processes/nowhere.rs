//! Addresses in no mapping that stacks of a process led to. Once the process was read and the address is still in none, its stacks that end
//! there need not be sent unwalked, and the process need not be read again for them.

use std::collections::HashMap;
use std::ops::Range;

use process::Image;
use profile::Avma;

/// Pages that are kept by themselves. A process whose stacks lead to more places has all of the gap kept that an address lies in.
const MAX_PAGES: usize = 16;
/// Ranges of one process.
const MAX_RANGES: usize = 64;
/// Addresses of one process that wait until it is read.
const MAX_PENDING: usize = 256;
const PAGE: u64 = 4096;
/// The bits of an address that the programs know: `FRAME_PC` of `bpf/abi/frame.h`.
const ADDRESS: u64 = (1 << if cfg!(target_arch = "aarch64") { 48 } else { 57 }) - 1;

/// A stack that ended at an address in no mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostAt {
    pub(crate) pid: u32,
    /// When the stack was taken.
    pub(crate) time_ns: u64,
    pub(crate) address: u64,
}

#[derive(Default)]
struct Known {
    /// Time and address.
    pending: Vec<(u64, u64)>,
    /// Sorted, without overlaps.
    ranges: Vec<Range<u64>>,
}

/// What is known of all processes.
#[derive(Default)]
pub(super) struct Nowhere(HashMap<u32, Known>);

impl Nowhere {
    pub(super) fn add(&mut self, lost: LostAt) {
        let pending = &mut self.0.entry(lost.pid).or_default().pending;
        let address = lost.address & ADDRESS;
        if pending.len() < MAX_PENDING && pending.iter().all(|(_, known)| known / PAGE != address / PAGE) {
            pending.push((lost.time_ns, address));
        }
    }

    /// Looks for the addresses that stacks led to before the process was read. True: there are new ranges.
    pub(super) fn look(&mut self, pid: u32, image: &Image, read_ns: u64) -> bool {
        let Some(known) = self.0.get_mut(&pid).filter(|known| !known.pending.is_empty()) else {
            return false;
        };
        let mut is_new = false;
        for (_, address) in known.pending.extract_if(.., |(time_ns, _)| *time_ns < read_ns) {
            let has_room = known.ranges.len() < MAX_RANGES;
            let is_known = known.ranges.iter().any(|range| range.contains(&address));
            if !image.complete || image.find(Avma(address)).is_some() || is_known || !has_room {
                continue;
            }
            let page = address - address % PAGE;
            let range = match known.ranges.len() < MAX_PAGES {
                true => page..page + PAGE,
                false => gap(image, address),
            };
            known.ranges.retain(|other| other.end <= range.start || range.end <= other.start);
            let at = known.ranges.partition_point(|other| other.end <= range.start);
            known.ranges.insert(at, range);
            is_new = true;
        }
        is_new
    }

    /// Ranges in no mapping, sorted.
    pub(super) fn of(&self, pid: u32) -> &[Range<u64>] {
        self.0.get(&pid).map_or(&[], |known| &known.ranges)
    }

    /// The process has ended, or has another program.
    pub(super) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}

/// The range between two mappings that an address lies in.
fn gap(image: &Image, address: u64) -> Range<u64> {
    let before = image.regions().iter().take_while(|region| region.end.0 <= address).last();
    let behind = image.regions().iter().find(|region| region.start.0 > address);
    before.map_or(0, |region| region.end.0)..behind.map_or(ADDRESS, |region| region.start.0)
}

#[cfg(test)]
mod tests {
    use process::{Region, RegionKind};
    use profile::FileOffset;

    use super::*;

    fn image() -> Image {
        let region = |at: u64| {
            Region::new(Avma(at << 20), Avma((at << 20) + PAGE), FileOffset(0), RegionKind::Anonymous)
        };
        Image::new(1, 1, "image".to_owned(), None, (1..10).map(region).collect())
    }

    fn lost(time_ns: u64, address: u64) -> LostAt {
        LostAt { pid: 1, time_ns, address }
    }

    #[test]
    fn an_address_is_in_no_mapping_when_the_process_was_read_since() {
        let (mut nowhere, image) = (Nowhere::default(), image());
        nowhere.add(lost(100, 0x7_0123));
        nowhere.add(lost(300, 0x8_0000));
        nowhere.add(lost(100, (3 << 20) + 5));
        assert!(!nowhere.look(1, &image, 100), "read before");
        assert!(nowhere.look(1, &image, 200));
        assert!(matches!(nowhere.of(1), [range] if *range == (0x7_0000..0x7_1000)));
        assert!(!nowhere.look(1, &image, 200) && nowhere.look(1, &image, 400));
        assert_eq!(nowhere.of(1).len(), 2);
        nowhere.forget(1);
        assert_eq!(nowhere.of(1), []);
    }

    #[test]
    fn stacks_that_lead_to_many_places_make_whole_gaps_known() {
        let (mut nowhere, image) = (Nowhere::default(), image());
        (0..100).for_each(|at| nowhere.add(lost(1, (4 << 20) + 0x2000 + at * PAGE)));
        nowhere.add(lost(1, u64::MAX));
        assert!(nowhere.look(1, &image, 2));
        assert_eq!(nowhere.of(1), [(4 << 20) + PAGE..5 << 20, ADDRESS - ADDRESS % PAGE..ADDRESS + 1]);
        assert!(nowhere.of(1).len() <= MAX_RANGES);
    }
}
