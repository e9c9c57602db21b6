//! Finds the record of the function at an address.

use std::ops::Range;

use gimli::LittleEndian;

use super::eh_frame::EhFrameSection;
use super::record;
use crate::cfi::pointer;
use crate::cfi::pointer::Bases;
use crate::cfi::section::FrameSection;
use crate::image::Image;
use crate::reader::Reader;

/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`: the only encoding of tables that linkers write.
const DATAREL_SDATA4: u8 = 0x3b;
/// The number of entries that are compared with their records before a table is used.
const PROBES: usize = 16;

/// The table of `.eh_frame_hdr`, which linkers sort by address.
#[derive(Debug)]
pub(super) struct SearchTable {
    /// Its entries in the file: `{i32 function, i32 record}`, relative to `header`.
    pub(super) range: Range<usize>,
    header: u64,
}

impl SearchTable {
    /// `None`: the table is missing or unreliable.
    pub(super) fn find(image: &Image<'_>, eh_frame: &EhFrameSection, text: Option<u64>) -> Option<Self> {
        let header = eh_frame.header?;
        let at = image.file_range_at(header)?;
        let mut r = Reader::at(image.data.get(at.clone())?, 0);
        let (version, pointer_encoding, count_encoding, entries) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        if version != 1 || entries != DATAREL_SDATA4 {
            return None;
        }
        let bases = Bases { section: header, data: Some(header), text };
        pointer::address(&mut r, pointer_encoding, &bases)?;
        let count = usize::try_from(pointer::address(&mut r, count_encoding, &bases)?).ok()?;
        let start = at.start + r.pos();
        let end = start.checked_add(count.checked_mul(8)?)?;
        let table = (count > 0 && end <= at.end).then_some(Self { range: start..end, header })?;
        table.is_true(image.data, eh_frame, text, count).then_some(table)
    }

    /// Whether entries across the table are in order and point to the records of their functions.
    fn is_true(&self, file: &[u8], eh_frame: &EhFrameSection, text: Option<u64>, count: usize) -> bool {
        let (Some(data), Some(entries)) = (file.get(eh_frame.range.clone()), self.entries(file)) else {
            return false;
        };
        let section = gimli::EhFrame::new(data, LittleEndian);
        let bases = eh_frame.bases(text);
        let mut before = 0;
        (0..=PROBES).all(|probe| {
            let Some(entry) = entries.get((count - 1) * probe / PROBES) else { return false };
            let (function, record) = self.entry(entry);
            let offset = usize::try_from(record.wrapping_sub(eh_frame.address)).ok();
            let record = offset.and_then(|offset| record::read(&section, &bases, offset.into()));
            let in_order = function >= before;
            before = function;
            in_order && record.is_some_and(|record| record.initial_address() == function)
        })
    }

    fn entries<'a>(&self, file: &'a [u8]) -> Option<&'a [[u8; 8]]> {
        Some(file.get(self.range.clone())?.as_chunks().0)
    }

    /// Link-time addresses of a function and of its record.
    fn entry(&self, &[a, b, c, d, e, f, g, h]: &[u8; 8]) -> (u64, u64) {
        let address = |bytes| self.header.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes)));
        (address([a, b, c, d]), address([e, f, g, h]))
    }

    /// The link-time address of the record of the last function that starts at or below an address.
    pub(super) fn lookup(&self, file: &[u8], svma: u64) -> Option<u64> {
        let entries = self.entries(file)?;
        let after = entries.partition_point(|entry| self.entry(entry).0 <= svma);
        Some(self.entry(entries.get(after.checked_sub(1)?)?).1)
    }

    /// Whether a function starts at an address.
    pub(super) fn begins_at(&self, file: &[u8], svma: u64) -> bool {
        let entries = self.entries(file).unwrap_or_default();
        entries.binary_search_by_key(&svma, |entry| self.entry(entry).0).is_ok()
    }
}

/// A built index, for sections without a table.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Sorted by start; each start once.
    functions: Vec<Function>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    /// Offset of its record in the section.
    offset: u64,
}

impl Index {
    pub(super) fn new(image: &Image<'_>, section: &FrameSection<'_>) -> Self {
        let in_code =
            |function: &Function| function.end > function.start && image.code_at(function.start).is_some();
        let records = section.records().fdes.into_iter();
        let functions =
            records.map(|fde| Function { start: fde.start, end: fde.end, offset: fde.offset as u64 });
        let mut functions: Vec<_> = functions.filter(in_code).collect();
        // Of several functions with the same start, keep the longest.
        functions.sort_unstable_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        functions.dedup_by_key(|function| function.start);
        Self { functions }
    }

    /// Offset of the record of the function at an address.
    pub(super) fn lookup(&self, svma: u64) -> Option<u64> {
        let after = self.functions.partition_point(|function| function.start <= svma);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (svma < function.end).then_some(function.offset)
    }

    /// Whether a function starts at an address.
    pub(super) fn begins_at(&self, svma: u64) -> bool {
        self.functions.binary_search_by_key(&svma, |function| function.start).is_ok()
    }
}
