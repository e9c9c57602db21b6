//! The executable memory of one process at one moment.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use profile::{Avma, FileOffset};

use crate::files::Files;
use crate::identity::DeviceAndInode;
use crate::open_request::OpenRequest;
use crate::region::{OpeningFile, Region, RegionKind};
use crate::regions::Regions;
use crate::resolve::{self, Mapping, NewMapping};
use crate::text_copy::{MAX_COPIES, TextCopy};
use crate::trampolines;

/// Neighbours in one direction that are looked at for one region.
const MAX_NEIGHBOURS: usize = 4096;

/// The executable memory of one process. Cheap to clone: the copy of a child shares the regions of its parent until
/// one of them changes.
#[derive(Clone, Debug)]
pub struct Image {
    /// The process.
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// Path of its executable in its own view, without ` (deleted)`; none for kernel threads.
    pub exe: Option<String>,
    /// False if some mappings could not be read or parsed.
    pub complete: bool,
    regions: Regions,
    /// Files of regions that were still to be opened when [`Self::settle`] was last called.
    opening: Vec<Arc<OpeningFile>>,
    /// A file that was to be opened could not be.
    has_failed: bool,
}

impl Image {
    /// Puts an image together. Regions are sorted. Where they overlap, the one that comes later in `regions` wins;
    /// neighbours that are parts of the same mapping are joined.
    #[must_use]
    pub fn new(
        pid: u32,
        start_time_ticks: u64,
        comm: String,
        exe: Option<String>,
        regions: Vec<Region>,
    ) -> Self {
        let mut opening: Vec<Arc<OpeningFile>> = Vec::new();
        for region in &regions {
            if let RegionKind::Opening(file) = region.kind()
                && !opening.iter().any(|known| Arc::ptr_eq(known, file))
            {
                opening.push(Arc::clone(file));
            }
        }
        let regions = Regions::new(regions);
        Self { pid, start_time_ticks, comm, exe, complete: true, regions, opening, has_failed: false }
    }

    /// The executable memory, sorted, without overlaps.
    #[must_use]
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The region of an address.
    #[must_use]
    pub fn find(&self, address: Avma) -> Option<&Region> {
        self.regions.find(address)
    }

    /// The memory without a file around a region of such memory, also where parts of it are trampolines.
    #[must_use]
    pub fn code_without_file(&self, region: &Region) -> Range<Avma> {
        let is_it =
            |other: &&Region| matches!(other.kind(), RegionKind::Anonymous | RegionKind::Trampolines(_));
        let Range { mut start, mut end } = region.start..region.end;
        for _ in 0..MAX_NEIGHBOURS {
            let before = start.0.checked_sub(1).and_then(|last| self.find(Avma(last))).filter(is_it);
            let behind = self.find(end).filter(is_it);
            if before.is_none() && behind.is_none() {
                break;
            }
            start = before.map_or(start, |before| before.start);
            end = behind.map_or(end, |behind| behind.end);
        }
        start..end
    }

    /// Whether some of its code lies in a file that could not be opened. Devices do not count.
    #[must_use]
    pub fn has_unreadable_files(&self) -> bool {
        self.has_failed || self.regions.counts().unreadable_files > 0
    }

    /// Whether some of its files may still have to be opened.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        !self.opening.is_empty()
    }

    /// Whether the answer about one of its files came since [`Self::settle`] was last called.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        self.opening.iter().any(|file| file.is_answered())
    }

    /// Takes notice of the answers about its files.
    pub fn settle(&mut self) {
        let answered: Vec<_> = self.opening.extract_if(.., |file| file.is_answered()).collect();
        let failed = |file: &Arc<OpeningFile>| file.answer().is_some_and(RegionKind::is_unreadable_file);
        self.has_failed |= answered.iter().any(failed);
    }

    /// Files that need not be looked at again when the same program is read again: those that are still to be opened, and those whose
    /// file system may not answer. Files that could not be opened may be found now.
    pub(crate) fn files_to_keep(&self) -> HashMap<DeviceAndInode, RegionKind> {
        let keep = |region: &Region| match region.kind() {
            RegionKind::Opening(file) if file.is_copy() => None,
            RegionKind::Opening(file) => Some((file.wanted(), region.kind().clone())),
            RegionKind::File(file) if file.failure().is_none() && !file.always_answers() => {
                Some((file.identity().device_and_inode(), region.kind().clone()))
            }
            _ => None,
        };
        self.regions.iter().filter_map(keep).collect()
    }

    /// Whether a region shows this file, answered or not.
    #[must_use]
    pub fn maps(&self, file: &Arc<OpeningFile>) -> bool {
        self.regions
            .iter()
            .any(|region| matches!(&region.seen, RegionKind::Opening(other) if Arc::ptr_eq(other, file)))
    }

    /// Adds a mapping that the kernel reported: it replaces everything at its addresses. The kernel does not report
    /// mappings that are removed; reading the process again shows them. Opens nothing: gives the request for the file if it
    /// has to be opened.
    #[must_use]
    pub fn apply_mmap(&mut self, new: &NewMapping<'_>, files: &Files) -> Option<OpenRequest> {
        let end = Avma(new.start.0.saturating_add(new.len));
        if !new.executable {
            self.regions.replace(new.start, end, Vec::new());
            return None;
        }
        let mapping = new.to_mapping(end);
        let at_hand = resolve::without_file(&mapping, files)
            .or_else(|| resolve::file_at_hand(&mapping, files))
            .or_else(|| self.same_file(&mapping));
        let mut request = None;
        let kind = at_hand.unwrap_or_else(|| {
            let new = OpenRequest::new(self.pid, Path::new(&format!("/proc/{}", self.pid)), None, &mapping);
            let file = Arc::clone(request.insert(new).file());
            self.opening.push(Arc::clone(&file));
            RegionKind::Opening(file)
        });
        let room = trampolines::MAX_OF_IMAGE.saturating_sub(self.regions.counts().trampolines);
        let mut regions = resolve::regions_of(self.pid, &mapping, kind, room, files);
        if let [only] = &mut regions[..]
            && matches!(only.seen, RegionKind::Anonymous)
            && let Some((copied, offset)) = self.copied_text(new.start, end)
        {
            let file = Arc::clone(request.insert(copied).file());
            self.opening.push(Arc::clone(&file));
            *only = Region::new(new.start, end, offset, RegionKind::Opening(file));
        }
        self.regions.replace(new.start, end, regions);
        request
    }

    /// The request for the file whose text may have been copied to memory without a file: it was there before, or is beside it.
    fn copied_text(&self, start: Avma, end: Avma) -> Option<(OpenRequest, FileOffset)> {
        if self.opening.iter().filter(|file| file.is_copy()).count() >= MAX_COPIES {
            return None;
        }
        let before = start.0.checked_sub(1).map(Avma);
        let beside = [Some(start), before, Some(end)].into_iter().flatten();
        beside.filter_map(|address| self.regions.find(address)).find_map(|region| {
            let offset = match region.start <= start {
                true => region.offset_of(start),
                false => FileOffset(region.offset.0.checked_sub(region.start.0 - start.0)?),
            };
            let copy = TextCopy { pid: self.pid, range: start.0..end.0, offset };
            let (wanted, path) = match region.kind() {
                RegionKind::File(file) if copy.fits(file) => {
                    (file.identity().device_and_inode(), file.path())
                }
                RegionKind::Opening(file) if !file.is_copy() => (file.wanted(), file.path()),
                _ => return None,
            };
            Some((OpenRequest::of_copy(copy, wanted, path), offset))
        })
    }

    /// The same file, if it is still to be opened, or if it is mapped just before or behind.
    fn same_file(&self, mapping: &Mapping<'_>) -> Option<RegionKind> {
        let is_it = |file: &&Arc<OpeningFile>| {
            file.wanted() == mapping.file && !file.is_copy() && !file.is_answered()
        };
        let awaited = self.opening.iter().find(is_it);
        if let Some(file) = awaited {
            return Some(RegionKind::Opening(Arc::clone(file)));
        }
        let beside = mapping.start.checked_sub(1).into_iter().chain([mapping.end]);
        let mut neighbours = beside.filter_map(|address| self.regions.find(Avma(address)));
        let same = neighbours.find(|region| region.wanted() == Some(mapping.file))?;
        Some(same.seen.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::MappedFile;
    use crate::identity::FileIdentity;
    use crate::open_failure::OpenFailure;
    use crate::regions::KindCounts;
    use proptest::prelude::*;

    fn region(start: u64, end: u64, offset: u64) -> Region {
        let kind = RegionKind::File(file(OpenFailure::Gone));
        Region::new(Avma(start), Avma(end), FileOffset(offset), kind)
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
    fn code_in_files_that_could_not_be_opened_is_known() {
        assert!(!image(Vec::new()).has_unreadable_files());
        for (failure, counts) in [
            (OpenFailure::Permission, true),
            (OpenFailure::Gone, true),
            (OpenFailure::Replaced, true),
            (OpenFailure::NotRegular, false),
        ] {
            let kind = RegionKind::File(file(failure));
            assert_eq!(
                image(vec![Region::new(Avma(1), Avma(2), FileOffset(0), kind)]).has_unreadable_files(),
                counts
            );
        }
    }

    /// Applies a mapping and opens its file at once.
    fn apply(image: &mut Image, mapping: &NewMapping<'_>, files: &Files) {
        if let Some(request) = image.apply_mmap(mapping, files) {
            request.file().settle(request.open(files));
            image.settle();
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
    fn a_mapping_replaces_older_ones() {
        let files = Files::with_budget(0);
        let mut image = image(vec![region(0x1000, 0x9000, 0x10000)]);
        let mut mapping = anonymous_mapping(0x3000, 0x1000);
        apply(&mut image, &mapping, &files);
        assert_eq!(
            ranges(&image),
            [(0x1000, 0x3000, 0x10000), (0x3000, 0x4000, 0), (0x4000, 0x9000, 0x13000)]
        );
        assert!(matches!(image.find(Avma(0x3000)).unwrap().kind(), RegionKind::Anonymous));
        mapping.start = Avma(0x2000);
        mapping.len = 0x4000;
        mapping.executable = false;
        apply(&mut image, &mapping, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x2000, 0x10000), (0x6000, 0x9000, 0x15000)]);
        mapping.start = Avma(u64::MAX - 5);
        mapping.len = u64::MAX;
        mapping.executable = true;
        apply(&mut image, &mapping, &files);
        assert_eq!(ranges(&image).last(), Some(&(u64::MAX - 5, u64::MAX, 0)));
    }

    #[test]
    fn a_mapping_joins_its_neighbours_and_updates_the_counts() {
        let files = Files::with_budget(0);
        let anonymous =
            |start, end| Region::new(Avma(start), Avma(end), FileOffset(0), RegionKind::Anonymous);
        let arena = |start| {
            let kind = RegionKind::Trampolines(file(OpenFailure::NotRegular));
            Region::new(Avma(start), Avma(start + 0x1000), FileOffset(0), kind)
        };
        let mut image = image(vec![
            anonymous(0x1000, 0x2000),
            region(0x2000, 0x3000, 0),
            arena(0x3000),
            anonymous(0x4000, 0x5000),
            arena(0x6000),
        ]);
        assert_eq!(image.regions.counts(), KindCounts { unreadable_files: 1, trampolines: 2 });
        let mapping = anonymous_mapping(0x2000, 0x2000);
        apply(&mut image, &mapping, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x5000, 0), (0x6000, 0x7000, 0)]);
        assert_eq!(image.regions.counts(), KindCounts { unreadable_files: 0, trampolines: 1 });
        assert!(!image.has_unreadable_files());
        apply(&mut image, &NewMapping { len: 0, ..mapping }, &files);
        assert_eq!(ranges(&image), [(0x1000, 0x5000, 0), (0x6000, 0x7000, 0)]);
    }

    #[test]
    fn memory_without_a_file_goes_on_over_trampolines() {
        let anonymous =
            |start, end| Region::new(Avma(start), Avma(end), FileOffset(0), RegionKind::Anonymous);
        let trampolines = |start, end| {
            let kind = RegionKind::Trampolines(file(OpenFailure::NotRegular));
            Region::new(Avma(start), Avma(end), FileOffset(0), kind)
        };
        let image = image(vec![
            region(0x0, 0x1000, 0),
            anonymous(0x1000, 0x2000),
            trampolines(0x2000, 0x3000),
            anonymous(0x3000, 0x4000),
            anonymous(0x5000, 0x6000),
        ]);
        let around = |address| {
            let around = image.code_without_file(image.find(Avma(address)).unwrap());
            (around.start.0, around.end.0)
        };
        assert_eq!([0x1000, 0x2fff, 0x3000].map(around), [(0x1000, 0x4000); 3]);
        assert_eq!(around(0x5000), (0x5000, 0x6000));
    }

    #[test]
    fn neighbours_of_code_made_at_run_time_are_one_region() {
        let anonymous =
            |start, end| Region::new(Avma(start), Avma(end), FileOffset(0), RegionKind::Anonymous);
        let image =
            image(vec![anonymous(0x1000, 0x2000), anonymous(0x2000, 0x3000), anonymous(0x4000, 0x5000)]);
        assert_eq!(ranges(&image), [(0x1000, 0x3000, 0), (0x4000, 0x5000, 0)]);
    }

    /// One page of memory: free, code without a file, or a page of the one file in this test.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Page {
        Free,
        Anonymous,
        File(u64),
    }

    const PAGE: u64 = 4096;

    /// Ranges of addresses and the positions in the file; 0 where there is no file.
    fn with_offsets_of_files(image: &Image) -> Vec<(u64, u64, u64)> {
        let offset = |region: &Region| region.file().map_or(0, |_| region.offset.0);
        image.regions().iter().map(|region| (region.start.0, region.end.0, offset(region))).collect()
    }

    /// The regions as a sorted list that is made from scratch.
    fn sorted(pages: &[Page]) -> Vec<(u64, u64, u64)> {
        let mut regions: Vec<(u64, u64, u64)> = Vec::new();
        for (at, page) in (0u64..).zip(pages) {
            let continues = at > 0
                && match (pages[at as usize - 1], page) {
                    (Page::Anonymous, Page::Anonymous) => true,
                    (Page::File(before), Page::File(this)) => before + 1 == *this,
                    _ => false,
                };
            match page {
                Page::Free => {}
                _ if continues => regions.last_mut().unwrap().1 += PAGE,
                Page::Anonymous => regions.push((at * PAGE, (at + 1) * PAGE, 0)),
                Page::File(offset) => regions.push((at * PAGE, (at + 1) * PAGE, offset * PAGE)),
            }
        }
        regions
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn mappings_make_the_same_as_a_list_from_scratch(
            initial in 0u64..1400,
            changes in proptest::collection::vec((0u64..3000, 0u64..2000, 0u8..3, any::<bool>()), 1..60),
        ) {
            let files = Files::with_budget(0);
            let page_of = |kind: u8, at: u64| match kind {
                0 => Page::Free,
                1 => Page::Anonymous,
                _ => Page::File(at),
            };
            let mapping = |start: u64, pages: u64, kind: u8| NewMapping {
                offset: FileOffset(if kind == 2 { start * PAGE } else { 0 }),
                inode: if kind == 2 { 7 } else { 0 },
                executable: kind != 0,
                path: if kind == 2 { b"/no/such/file" } else { b"//anon" },
                ..anonymous_mapping(start * PAGE, pages * PAGE)
            };
            let mut pages = vec![Page::Free; 5000];
            let mut image = image(Vec::new());
            for at in (0..initial).map(|at| at * 2) {
                pages[at as usize] = page_of(1 + (at % 4 / 2) as u8, at);
                apply(&mut image, &mapping(at, 1, 1 + (at % 4 / 2) as u8), &files);
            }
            let mut copies = Vec::new();
            for (start, len, kind, copy) in changes {
                if copy {
                    copies.push((image.clone(), sorted(&pages)));
                }
                let len = if len < 1900 { len % 5 } else { len };
                for at in start..start + len {
                    pages[at as usize] = page_of(kind, at);
                }
                apply(&mut image, &mapping(start, len, kind), &files);
                prop_assert_eq!(with_offsets_of_files(&image), sorted(&pages));
                prop_assert_eq!(image.regions.counts(), KindCounts::of(image.regions().iter()));
                let mid = Avma(start * PAGE + 1);
                prop_assert_eq!(image.find(mid).is_some(), pages[start as usize] != Page::Free);
            }
            for (copy, expected) in copies {
                prop_assert_eq!(with_offsets_of_files(&copy), expected, "a copy keeps what it was");
            }
        }
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
            prop_assert_eq!(image.regions.counts(), KindCounts::of(image.regions().iter()));
            for address in (0..64).map(Avma) {
                let covers = |region: &&Region| region.start <= address && address < region.end;
                let expected = regions.iter().rev().find(covers).map(|region| region.offset_of(address));
                prop_assert_eq!(image.find(address).map(|region| region.offset_of(address)), expected);
            }
        }
    }
}
