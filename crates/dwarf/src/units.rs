//! The headers of all units of a `.debug_info` section.

use gimli::{DebugInfo, Encoding, LittleEndian, UnitType};

use crate::limits::{MAX_UNIT, MAX_UNITS};
use crate::sections::Slice;

/// One unit, as its header tells it. All positions are in the section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitHead {
    pub start: usize,
    /// Where its first entry is.
    pub entries: usize,
    pub end: usize,
    /// Where its abbreviations are in their section.
    pub abbreviations: usize,
    pub encoding: Encoding,
    /// Types only.
    pub is_type_unit: bool,
    /// The number that a skeleton and its split unit share, from DWARF 5 on.
    pub dwo_id: Option<u64>,
}

/// All units, sorted by position.
#[derive(Debug, Default)]
pub(crate) struct Units {
    pub heads: Vec<UnitHead>,
    /// Units that are too long, and those behind a damaged header as one.
    pub refused: u64,
}

impl Units {
    pub fn read(info: &[u8]) -> Self {
        let mut this = Self::default();
        let mut headers = DebugInfo::new(info, LittleEndian).units();
        loop {
            match headers.next() {
                Ok(Some(header)) if this.heads.len() < MAX_UNITS => this.add(&header),
                Ok(None) => return this,
                Ok(Some(_)) | Err(_) => {
                    this.refused += 1;
                    return this;
                }
            }
        }
    }

    fn add(&mut self, header: &gimli::UnitHeader<Slice<'_>>) {
        let Some(start) = header.debug_info_offset().map(|offset| offset.0) else { return };
        let length = header.length_including_self();
        if length > MAX_UNIT {
            self.refused += 1;
            return;
        }
        let (is_type_unit, dwo_id) = match header.type_() {
            UnitType::Type { .. } | UnitType::SplitType { .. } => (true, None),
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => (false, Some(id.0)),
            UnitType::Compilation | UnitType::Partial => (false, None),
        };
        self.heads.push(UnitHead {
            start,
            entries: start + header.header_size(),
            end: start + length,
            abbreviations: header.debug_abbrev_offset().0,
            encoding: header.encoding(),
            is_type_unit,
            dwo_id,
        });
    }

    /// The number of the unit that a position is in.
    pub fn at(&self, position: usize) -> Option<usize> {
        let index = self.heads.partition_point(|head| head.start <= position).checked_sub(1)?;
        self.heads.get(index).filter(|head| (head.entries..head.end).contains(&position)).map(|_| index)
    }
}
