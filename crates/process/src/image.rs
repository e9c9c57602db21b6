//! The executable memory of one process at one moment.

use std::cmp::Ordering;
use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::file::MappedFile;
use crate::files::Files;
use crate::open::OpenFailure;
use crate::{reader, trampolines};

/// What executable memory is.
#[derive(Clone, Debug)]
pub enum RegionKind {
    /// A mapped file, ELF or not, whether or not it could be opened.
    File(Arc<MappedFile>),
    /// The kernel's vDSO.
    Vdso(Arc<MappedFile>),
    /// No file, or one that exists in memory only and is not ELF: code made at run time.
    Anonymous,
    /// Code that CPython makes for each of its functions; the file is one in memory that tells how to unwind it.
    Trampolines(Arc<MappedFile>),
    /// The legacy page of system calls at a fixed address.
    Vsyscall,
}

impl RegionKind {
    /// The file.
    #[must_use]
    pub fn file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Self::File(file) | Self::Vdso(file) | Self::Trampolines(file) => Some(file),
            Self::Anonymous | Self::Vsyscall => None,
        }
    }

    pub(crate) fn is_trampolines(&self) -> bool {
        matches!(self, Self::Trampolines(_))
    }

    fn is_unreadable_file(&self) -> bool {
        let failure = self.file().and_then(|file| file.failure());
        failure.is_some_and(|failure| failure != OpenFailure::NotRegular)
    }

    fn continues(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::File(before), Self::File(this)) => Arc::ptr_eq(before, this),
            (Self::Anonymous, Self::Anonymous) => true,
            _ => false,
        }
    }
}

/// A range of executable memory.
#[derive(Clone, Debug)]
pub struct Region {
    /// First address.
    pub start: Avma,
    /// First address behind it.
    pub end: Avma,
    /// Position in the file of `start`; 0 where there is no file.
    pub offset: FileOffset,
    /// What it is.
    pub kind: RegionKind,
}

impl Region {
    /// The position in the file of an address inside of this region.
    #[must_use]
    pub fn offset_of(&self, address: Avma) -> FileOffset {
        FileOffset(address.0.wrapping_sub(self.start.0).wrapping_add(self.offset.0))
    }

    fn continues(&self, before: &Self) -> bool {
        let in_place =
            matches!(self.kind, RegionKind::Anonymous) || before.offset_of(self.start) == self.offset;
        before.end == self.start && in_place && self.kind.continues(&before.kind)
    }
}

/// A mapping that the kernel reported after the process was read.
#[derive(Clone, Copy, Debug)]
pub struct NewMapping<'a> {
    /// First address.
    pub start: Avma,
    /// Bytes.
    pub len: u64,
    /// Position in the file.
    pub offset: FileOffset,
    /// Major number of the device.
    pub dev_major: u32,
    /// Minor number of the device.
    pub dev_minor: u32,
    /// Inode.
    pub inode: u64,
    /// Whether it is code.
    pub executable: bool,
    /// As the process sees it; a name such as `//anon` where there is no file.
    pub path: &'a [u8],
}

/// The executable memory of one process.
#[derive(Clone, Debug)]
pub struct Image {
    /// The process.
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// Path of its executable as it sees it, without ` (deleted)`; none for kernel threads.
    pub exe: Option<String>,
    /// False if some mappings could not be read or understood.
    pub complete: bool,
    regions: Vec<Region>,
    kinds: Kinds,
}

/// Regions of kinds that are asked for at each mapping, too often to look through all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    unreadable_files: usize,
    trampolines: usize,
}

impl Kinds {
    fn of(regions: &[Region]) -> Self {
        let count = |is: fn(&RegionKind) -> bool| regions.iter().filter(|region| is(&region.kind)).count();
        Self {
            unreadable_files: count(RegionKind::is_unreadable_file),
            trampolines: count(RegionKind::is_trampolines),
        }
    }

    fn replace(&mut self, old: Self, new: Self) {
        self.unreadable_files = self.unreadable_files - old.unreadable_files + new.unreadable_files;
        self.trampolines = self.trampolines - old.trampolines + new.trampolines;
    }
}

impl Image {
    /// Puts an image together. Regions are sorted; where they overlap, the one that stands later in `regions` wins;
    /// neighbours that are parts of the same are joined.
    #[must_use]
    pub fn new(
        pid: u32,
        start_time_ticks: u64,
        comm: String,
        exe: Option<String>,
        mut regions: Vec<Region>,
    ) -> Self {
        let kinds = Kinds::default();
        let mut image = Self { pid, start_time_ticks, comm, exe, complete: true, regions: Vec::new(), kinds };
        regions.retain(|region| region.start < region.end);
        if regions.iter().zip(regions.iter().skip(1)).all(|(one, next)| one.end <= next.start) {
            join_neighbours(&mut regions);
            image.kinds = Kinds::of(&regions);
            image.regions = regions;
        } else {
            for region in regions {
                image.replace(region.start, region.end, vec![region]);
            }
        }
        image
    }

    /// The executable memory, sorted, without overlaps.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region of an address.
    #[must_use]
    pub fn find(&self, address: Avma) -> Option<&Region> {
        let at = self.regions.binary_search_by(|region| {
            if region.end <= address {
                Ordering::Less
            } else if region.start > address {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        });
        self.regions.get(at.ok()?)
    }

    /// Whether code of it lies in a file that could not be opened. Devices are none.
    #[must_use]
    pub fn has_unreadable_files(&self) -> bool {
        self.kinds.unreadable_files > 0
    }

    /// Takes a mapping in that the kernel reported: it replaces whatever was at its addresses. Removed mappings are
    /// not reported; reading the process again shows them.
    pub fn apply_mmap(&mut self, mapping: &NewMapping<'_>, files: &Files) {
        let end = Avma(mapping.start.0.saturating_add(mapping.len));
        let new = if mapping.executable {
            let room = trampolines::MAX_OF_IMAGE.saturating_sub(self.kinds.trampolines);
            reader::resolve_new(self.pid, mapping, end, room, files)
        } else {
            Vec::new()
        };
        self.replace(mapping.start, end, new);
    }

    /// Puts regions, sorted and all within a range, in the place of whatever is there.
    fn replace(&mut self, start: Avma, end: Avma, new: Vec<Region>) {
        if start >= end {
            return;
        }
        let first = self.regions.partition_point(|region| region.end <= start);
        let last = self.regions.partition_point(|region| region.start < end).max(first);
        let before = self.regions[first..last]
            .first()
            .filter(|region| region.start < start)
            .map(|region| Region { end: start, ..region.clone() });
        let after = self.regions[first..last].last().filter(|region| region.end > end).map(|region| Region {
            start: end,
            offset: region.offset_of(end),
            ..region.clone()
        });
        // With the neighbours on both sides, of which the new ones may be parts.
        let (from, to) = (first.saturating_sub(1), (last + 1).min(self.regions.len()));
        let mut parts = self.regions[from..first].to_vec();
        parts.extend(before.into_iter().chain(new).chain(after));
        parts.extend_from_slice(&self.regions[last..to]);
        join_neighbours(&mut parts);
        self.kinds.replace(Kinds::of(&self.regions[from..to]), Kinds::of(&parts));
        self.regions.splice(from..to, parts);
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
    use super::*;
    use crate::file::FileIdentity;
    use proptest::prelude::*;

    fn region(start: u64, end: u64, offset: u64) -> Region {
        let kind = RegionKind::File(file(OpenFailure::Gone));
        Region { start: Avma(start), end: Avma(end), offset: FileOffset(offset), kind }
    }

    fn file(failure: OpenFailure) -> Arc<MappedFile> {
        Arc::new(MappedFile::unreadable(FileIdentity::default(), String::new(), failure, None))
    }

    fn image(regions: Vec<Region>) -> Image {
        Image::new(1, 2, "name".to_owned(), None, regions)
    }

    fn ranges(image: &Image) -> Vec<(u64, u64, u64)> {
        image.regions().iter().map(|region| (region.start.0, region.end.0, region.offset.0)).collect()
    }

    #[test]
    fn finds_the_region_of_an_address() {
        let image =
            image(vec![region(0x1000, 0x2000, 1), region(0x2000, 0x3000, 2), region(0x5000, 0x6000, 3)]);
        let at = |address| image.find(Avma(address)).map(|region| region.offset.0);
        assert_eq!([at(0xfff), at(0x1000), at(0x1fff), at(0x2000)], [None, Some(1), Some(1), Some(2)]);
        assert_eq!([at(0x3000), at(0x5fff), at(0x6000), at(u64::MAX)], [None, Some(3), None, None]);
    }

    #[test]
    fn knows_whether_code_lies_in_files_that_could_not_be_opened() {
        assert!(!image(Vec::new()).has_unreadable_files());
        for (failure, counts) in [
            (OpenFailure::Permission, true),
            (OpenFailure::Gone, true),
            (OpenFailure::Replaced, true),
            (OpenFailure::NotRegular, false),
        ] {
            let kind = RegionKind::File(file(failure));
            assert_eq!(image(vec![Region { kind, ..region(1, 2, 0) }]).has_unreadable_files(), counts);
        }
    }

    fn anonymous_mapping(start: u64, len: u64) -> NewMapping<'static> {
        NewMapping {
            start: Avma(start),
            len,
            offset: FileOffset(0),
            dev_major: 0,
            dev_minor: 0,
            inode: 0,
            executable: true,
            path: b"//anon",
        }
    }

    #[test]
    fn a_mapping_replaces_what_was_there() {
        let files = Files::with_budget(0);
        let mut image = image(vec![region(0x1000, 0x9000, 0x10000)]);
        let mut mapping = anonymous_mapping(0x3000, 0x1000);
        image.apply_mmap(&mapping, &files);
        assert_eq!(
            ranges(&image),
            [(0x1000, 0x3000, 0x10000), (0x3000, 0x4000, 0), (0x4000, 0x9000, 0x13000)]
        );
        assert!(matches!(image.find(Avma(0x3000)).unwrap().kind, RegionKind::Anonymous));
        mapping.start = Avma(0x2000);
        mapping.len = 0x4000;
        mapping.executable = false;
        image.apply_mmap(&mapping, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x2000, 0x10000), (0x6000, 0x9000, 0x15000)]);
        mapping.start = Avma(u64::MAX - 5);
        mapping.len = u64::MAX;
        mapping.executable = true;
        image.apply_mmap(&mapping, &files);
        assert_eq!(ranges(&image).last(), Some(&(u64::MAX - 5, u64::MAX, 0)));
    }

    #[test]
    fn a_mapping_joins_its_neighbours_and_takes_what_it_replaces_out_of_the_counts() {
        let files = Files::with_budget(0);
        let anonymous = |start, end| Region { kind: RegionKind::Anonymous, ..region(start, end, 0) };
        let arena = |start| Region {
            kind: RegionKind::Trampolines(file(OpenFailure::NotRegular)),
            ..region(start, start + 0x1000, 0)
        };
        let mut image = image(vec![
            anonymous(0x1000, 0x2000),
            region(0x2000, 0x3000, 0),
            arena(0x3000),
            anonymous(0x4000, 0x5000),
            arena(0x6000),
        ]);
        assert_eq!(image.kinds, Kinds { unreadable_files: 1, trampolines: 2 });
        let mapping = anonymous_mapping(0x2000, 0x2000);
        image.apply_mmap(&mapping, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x5000, 0), (0x6000, 0x7000, 0)]);
        assert_eq!(image.kinds, Kinds { unreadable_files: 0, trampolines: 1 });
        assert!(!image.has_unreadable_files());
        image.apply_mmap(&NewMapping { len: 0, ..mapping }, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x5000, 0), (0x6000, 0x7000, 0)]);
    }

    #[test]
    fn neighbours_of_code_made_at_run_time_are_one_region() {
        let anonymous = |start, end| Region { kind: RegionKind::Anonymous, ..region(start, end, 0) };
        let image =
            image(vec![anonymous(0x1000, 0x2000), anonymous(0x2000, 0x3000), anonymous(0x4000, 0x5000)]);
        assert_eq!(ranges(&image), [(0x1000, 0x3000, 0), (0x4000, 0x5000, 0)]);
    }

    proptest! {
        #[test]
        fn regions_never_overlap_and_the_last_wins(
            ranges in proptest::collection::vec((0u64..64, 0u64..64, 0u64..1000), 0..20),
        ) {
            let regions: Vec<_> = ranges.iter().map(|&(start, end, offset)| region(start, end, offset * 100)).collect();
            let image = image(regions.clone());
            for (one, next) in image.regions().iter().zip(image.regions().iter().skip(1)) {
                prop_assert!(one.start < one.end && one.end <= next.start);
            }
            prop_assert_eq!(image.kinds, Kinds::of(image.regions()));
            for address in (0..64).map(Avma) {
                let covers = |region: &&Region| region.start <= address && address < region.end;
                let expected = regions.iter().rev().find(covers).map(|region| region.offset_of(address));
                prop_assert_eq!(image.find(address).map(|region| region.offset_of(address)), expected);
            }
        }
    }
}
