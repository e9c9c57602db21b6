//! The list of mappings that the kernel side gets of one process. Code without a table needs no entry of its own for each mapping, and
//! no process has more entries than its quota: what a process maps costs the others nothing.

use std::ops::Range;

use kernel::{KernelMapping, MappingKind};

/// Entries of one process, at 32 bytes each. A browser or a JVM with all its libraries has a tenth.
pub(super) const MAX_ENTRIES: usize = 8192;
/// Of these, entries without a table, as JITs map them. Where a process has more, neighbours are joined over the smallest gaps.
pub(super) const MAX_PLAIN: usize = 1024;

/// A list within its quota.
pub(super) struct MappingList {
    pub(super) entries: Vec<KernelMapping>,
    /// Entries beyond the quota. Walks through their code end.
    pub(super) left_out: usize,
}

/// Puts sorted mappings within the quota of a process. Neighbours without a table are joined where they touch; if there are too many, those
/// with the smallest gaps are joined too, and code in such a gap is walked by frame pointers.
pub(super) fn within_quota(mappings: impl Iterator<Item = KernelMapping>) -> MappingList {
    let mut entries = Vec::new();
    for mapping in mappings {
        join_or_push(&mut entries, mapping, 0);
    }
    let plain = entries.iter().filter(|entry| is_plain(entry)).count();
    if plain > MAX_PLAIN {
        let gaps = entries.iter().zip(entries.iter().skip(1)).filter_map(|(one, next)| gap(one, next));
        let mut gaps: Vec<u64> = gaps.collect();
        let excess = (plain - MAX_PLAIN).min(gaps.len());
        if excess > 0 {
            let (_, widest, _) = gaps.select_nth_unstable(excess - 1);
            let widest = *widest;
            let apart = std::mem::take(&mut entries);
            apart.into_iter().for_each(|mapping| join_or_push(&mut entries, mapping, widest));
        }
    }
    let left_out = entries.len().saturating_sub(MAX_ENTRIES);
    entries.truncate(MAX_ENTRIES);
    MappingList { entries, left_out }
}

/// Adds ranges in no mapping that stacks led to. One that overlaps an entry is out of date.
pub(super) fn with_nowhere(mut entries: Vec<KernelMapping>, nowhere: &[Range<u64>]) -> Vec<KernelMapping> {
    for range in nowhere {
        let at = entries.partition_point(|entry| entry.end <= range.start);
        if entries.get(at).is_none_or(|entry| entry.start >= range.end) {
            let kind = MappingKind::Nowhere;
            entries.insert(at, KernelMapping { start: range.start, end: range.end, bias: 0, kind });
        }
    }
    entries
}

/// Adds a mapping to the last entry if neither has a table and they are no farther apart.
fn join_or_push(entries: &mut Vec<KernelMapping>, mapping: KernelMapping, widest: u64) {
    match entries.last_mut() {
        Some(last) if gap(last, &mapping).is_some_and(|gap| gap <= widest) => last.end = mapping.end,
        _ if is_plain(&mapping) => entries.push(KernelMapping { bias: 0, ..mapping }),
        _ => entries.push(mapping),
    }
}

/// How far apart two neighbours are, if they could be one entry.
fn gap(one: &KernelMapping, next: &KernelMapping) -> Option<u64> {
    (is_plain(one) && is_plain(next)).then(|| next.start.saturating_sub(one.end))
}

fn is_plain(mapping: &KernelMapping) -> bool {
    mapping.kind == MappingKind::FramePointers
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: MappingKind = MappingKind::FramePointers;

    fn mapping(start: u64, end: u64, kind: MappingKind) -> KernelMapping {
        KernelMapping { start, end, bias: start, kind }
    }

    fn ranges(list: &MappingList) -> Vec<(u64, u64)> {
        list.entries.iter().map(|entry| (entry.start, entry.end)).collect()
    }

    #[test]
    fn mappings_of_a_usual_process_stay_as_they_are_but_for_those_that_touch() {
        let table = MappingKind::Table(8);
        let all = [
            mapping(1, 2, table),
            mapping(2, 3, table),
            mapping(3, 5, PLAIN),
            mapping(5, 7, PLAIN),
            mapping(8, 9, PLAIN),
            mapping(9, 10, MappingKind::NotReady),
        ];
        let list = within_quota(all.into_iter());
        assert_eq!(ranges(&list), [(1, 2), (2, 3), (3, 7), (8, 9), (9, 10)]);
        assert_eq!((list.entries[1], list.left_out), (all[1], 0));
    }

    #[test]
    fn of_too_many_mappings_without_tables_those_with_the_smallest_gaps_become_one() {
        let dense = (0..60_000).map(|at| mapping(at * 2, at * 2 + 1, PLAIN));
        let library = std::iter::once(mapping(200_000, 200_100, MappingKind::Table(8)));
        let sparse = (1..1000).map(|at| mapping(at << 20, (at << 20) + 1, PLAIN));
        let list = within_quota(dense.chain(library).chain(sparse));
        assert!(list.entries.len() <= MAX_PLAIN + 1, "{}", list.entries.len());
        assert_eq!(ranges(&list)[..2], [(0, 119_999), (200_000, 200_100)]);
        assert_eq!((list.entries.len(), list.left_out), (1001, 0));
    }

    #[test]
    fn ranges_in_no_mapping_stand_between_the_others() {
        let all = vec![mapping(10, 20, PLAIN), mapping(30, 40, MappingKind::Table(8))];
        let list = with_nowhere(all, &[0..5, 20..30, 35..36, 15..17, 39..45, 50..60]);
        let kinds: Vec<_> =
            list.iter().map(|entry| (entry.start, entry.kind == MappingKind::Nowhere)).collect();
        assert_eq!(kinds, [(0, true), (10, false), (20, true), (30, false), (50, true)]);
    }

    #[test]
    fn a_process_has_no_more_entries_than_its_quota() {
        let all = |count: u64| (0..count).map(|at| mapping(at, at + 1, MappingKind::Table(8)));
        let most = within_quota(all(MAX_ENTRIES as u64));
        assert_eq!((most.entries.len(), most.left_out), (MAX_ENTRIES, 0));
        let list = within_quota(all(60_000));
        assert_eq!((list.entries.len(), list.left_out), (MAX_ENTRIES, 60_000 - MAX_ENTRIES));
    }
}
