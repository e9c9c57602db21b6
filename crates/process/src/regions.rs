//! The executable memory of a process: a sorted list that its children share until they change it.

use profile::Avma;

use crate::chunked::Chunked;
use crate::region::{Region, RegionKind};

/// Regions of one process, sorted, without overlaps. Neighbours that are parts of the same mapping are joined. Cheap to
/// clone: a copy shares everything that neither side changes.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    list: Chunked<Region>,
    counts: KindCounts,
}

/// How many regions are of kinds that are asked for at every mapping, too often to look through all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindCounts {
    pub unreadable_files: usize,
    pub trampolines: usize,
}

impl KindCounts {
    pub(crate) fn of<'a>(regions: impl Iterator<Item = &'a Region>) -> Self {
        regions.fold(Self::default(), |counts, region| Self {
            unreadable_files: counts.unreadable_files + usize::from(is_unreadable(region)),
            trampolines: counts.trampolines + usize::from(region.seen.is_trampolines()),
        })
    }
}

/// Of a file that was still to be opened, the image notes it: counts must not change while a region stays.
fn is_unreadable(region: &Region) -> bool {
    !matches!(&region.seen, RegionKind::Opening(_)) && region.seen.is_unreadable_file()
}

impl Regions {
    /// Puts a list together. Where regions overlap, the one that comes later wins.
    pub(crate) fn new(mut regions: Vec<Region>) -> Self {
        regions.retain(|region| region.start < region.end);
        if regions.iter().zip(regions.iter().skip(1)).all(|(one, next)| one.end <= next.start) {
            join_neighbours(&mut regions);
            return Self { counts: KindCounts::of(regions.iter()), list: Chunked::from(regions) };
        }
        let mut this = Self::default();
        for region in regions {
            this.replace(region.start, region.end, vec![region]);
        }
        this
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// The region with the lowest addresses.
    #[must_use]
    pub fn first(&self) -> Option<&Region> {
        self.iter().next()
    }

    /// All regions, by address.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Region> + Clone {
        self.list.iter()
    }

    /// The region of an address.
    #[must_use]
    pub fn find(&self, address: Avma) -> Option<&Region> {
        self.list.first_not(|region| region.end <= address).filter(|region| region.start <= address)
    }

    /// The last region that begins at an address or before it.
    #[must_use]
    pub fn last_before(&self, address: Avma) -> Option<&Region> {
        let behind = self.list.partition_point(|region| region.start <= address);
        self.list.range(behind.checked_sub(1)?..behind).next()
    }

    pub(crate) fn counts(&self) -> KindCounts {
        self.counts
    }

    /// Puts regions, sorted and all within a range of addresses, in the place of everything that is there.
    pub(crate) fn replace(&mut self, start: Avma, end: Avma, new: Vec<Region>) {
        if start >= end {
            return;
        }
        let first = self.list.partition_point(|region| region.end <= start);
        let last = self.list.partition_point(|region| region.start < end).max(first);
        // With one neighbour on each side: the new regions may be parts of the same mapping.
        let from = first.saturating_sub(1);
        let to = (last + 1).min(self.list.len());
        let old: Vec<&Region> = self.list.range(from..to).collect();
        let (left, replaced, right) =
            (&old[..first - from], &old[first - from..last - from], &old[last - from..]);
        let before = replaced.first().filter(|region| region.start < start);
        let before = before.map(|region| Region { end: start, ..(*region).clone() });
        let after = replaced.last().filter(|region| region.end > end);
        let after =
            after.map(|region| Region { start: end, offset: region.offset_of(end), ..(*region).clone() });
        let cloned = |regions: &[&Region]| regions.iter().map(|region| (*region).clone()).collect::<Vec<_>>();
        let mut parts = cloned(left);
        parts.extend(before.into_iter().chain(new).chain(after));
        parts.extend(cloned(right));
        join_neighbours(&mut parts);

        let (gone, come) = (KindCounts::of(old.into_iter()), KindCounts::of(parts.iter()));
        self.counts = KindCounts {
            unreadable_files: self.counts.unreadable_files - gone.unreadable_files + come.unreadable_files,
            trampolines: self.counts.trampolines - gone.trampolines + come.trampolines,
        };
        self.list.splice(from..to, parts);
    }
}

fn join_neighbours(regions: &mut Vec<Region>) {
    regions.dedup_by(|region, before| {
        let joined = region.continues(before);
        if joined {
            before.end = region.end;
        }
        joined
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use profile::FileOffset;

    use super::*;

    #[test]
    fn children_of_a_large_process_share_its_regions() {
        let region = |at: u64| {
            let start = at * 0x2000;
            Region::new(Avma(start), Avma(start + 0x1000), FileOffset(0), RegionKind::Anonymous)
        };
        let parent = Regions::new((0..30_000).map(region).collect());
        let mut children = vec![parent.clone(); 150];
        for (number, child) in (0u64..).zip(&mut children) {
            // As a dynamic loader does: neighbouring mappings, somewhere else in each child.
            for change in 0..20 {
                let at = (number * 197 + change) % 30_000;
                let new = Region {
                    start: Avma(at * 0x2000 + 0x1000),
                    end: Avma(at * 0x2000 + 0x1800),
                    ..region(at)
                };
                child.replace(new.start, new.end, vec![new]);
            }
        }
        let mut chunks = HashMap::new();
        for regions in children.iter().chain([&parent]) {
            chunks.extend(regions.list.chunks());
        }
        let pointers: usize =
            children.iter().map(|child| child.list.chunks().count() * size_of::<usize>()).sum();
        let bytes = chunks.values().sum::<usize>() * size_of::<Region>() + pointers;
        let unshared = 151 * 30_000 * size_of::<Region>();
        println!("150 children: {bytes} bytes, {unshared} without sharing");
        assert!(bytes < unshared / 25, "{bytes} of {unshared} bytes");
    }
}
