//! One unit that is being read: its bytes, its abbreviations, and what its root entry says.

use std::ffi::CStr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use gimli::constants::{self as dw, DwAt};
use gimli::{
    Abbreviations as NoAbbreviations, AttributeSpecification, AttributeValue, DebugAddrBase, DebugAddrIndex,
    DebugLineOffset, DebugRngListsBase, DebugRngListsIndex, DebugStrOffsetsBase, Dwarf, DwarfFileType,
    EndianSlice, EntriesRaw, LittleEndian, RangeListsOffset, RawRangeListsOffset, UnitOffset,
};

use crate::abbreviations::{self, Abbreviations, Plain, Shape, Step, is_asked};
use crate::bytes::uleb;
use crate::limits::{MAX_RANGES_OF_ENTRY, Work};
use crate::sections::{Sections, Slice};
use crate::units::{UnitHead, Units};

pub(crate) type Value<'a> = AttributeValue<Slice<'a>, usize>;

/// Debug sections that refer to each other, and their units.
pub(crate) struct Space<'a> {
    pub dwarf: Dwarf<Slice<'a>>,
    pub info: &'a [u8],
    pub abbrev: &'a [u8],
    pub units: Arc<Units>,
}

impl<'a> Space<'a> {
    pub fn new(sections: Sections<'a>, units: Arc<Units>, file_type: DwarfFileType) -> Self {
        let (info, abbrev) = (sections.info, sections.abbrev);
        Self { dwarf: sections.dwarf(file_type), info, abbrev, units }
    }
}

/// What the root entry of a unit says.
#[derive(Clone, Debug)]
pub(crate) struct Root<'a> {
    pub low_pc: u64,
    pub bounds: Bounds<'a>,
    /// Whether it is only there to be imported.
    pub is_partial: bool,
    /// Whether functions may be in namespaces and types. True if the language is unknown.
    pub has_scopes: bool,
    pub lines: Option<DebugLineOffset>,
    pub name: Option<Slice<'a>>,
    pub directory: Option<Slice<'a>>,
    /// The file with the split unit, and the number that both have.
    pub split: Option<(Slice<'a>, u64)>,
    /// The number that skeleton and split unit share.
    pub id: Option<u64>,
    pub str_offsets: DebugStrOffsetsBase,
    pub addresses: DebugAddrBase,
    pub rnglists: DebugRngListsBase,
}

/// A unit. `'s` is that of the space.
pub(crate) struct View<'a> {
    pub space: Rc<Space<'a>>,
    pub head: UnitHead,
    pub root: Root<'a>,
    pub abbreviations: Arc<Abbreviations>,
}

/// Reads the wanted attributes of an entry. `data` ends with the unit; `at` is where the attributes begin, then where they end.
pub(crate) fn attributes<'a>(
    data: &'a [u8],
    at: &mut usize,
    head: &UnitHead,
    specs: &[AttributeSpecification],
    is_wanted: impl Fn(DwAt) -> bool,
    mut each: impl FnMut(DwAt, Value<'a>),
) -> Option<()> {
    for spec in specs {
        if !is_wanted(spec.name()) {
            Abbreviations::skip_one(spec.form(), data, at, head.encoding)?;
        } else if let Some(plain) = Plain::of(spec, head.encoding) {
            each(spec.name(), plain_value(data, at, plain)?);
        } else {
            each(spec.name(), other_value(data, at, head, *spec)?);
        }
    }
    Some(())
}

/// The value of an attribute in a plain form, as gimli would give it, but for numbers of files, which are numbers here.
#[inline]
fn plain_value<'a>(data: &'a [u8], at: &mut usize, plain: Plain) -> Option<Value<'a>> {
    let rest = data.get(*at..)?;
    let word = || rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let long = || rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let (value, length) = match plain {
        Plain::Reference4 => (AttributeValue::UnitRef(UnitOffset(word()?)), 4),
        Plain::Address8 => (AttributeValue::Addr(long()?), 8),
        Plain::String4 => (AttributeValue::DebugStrRef(gimli::DebugStrOffset(word()?)), 4),
        Plain::Ranges4 => (AttributeValue::RangeListsRef(RawRangeListsOffset(word()?)), 4),
        Plain::Number1 => (AttributeValue::Udata((*rest.first()?).into()), 1),
        Plain::Number2 => (AttributeValue::Udata(u16::from_le_bytes(*rest.first_chunk()?).into()), 2),
        Plain::Number4 => (AttributeValue::Udata(word()? as u64), 4),
        Plain::Number8 => (AttributeValue::Udata(long()?), 8),
        Plain::Constant(value) => (AttributeValue::Udata(value), 0),
    };
    *at += length;
    Some(value)
}

/// The value of any attribute.
fn other_value<'a>(
    data: &'a [u8],
    at: &mut usize,
    head: &UnitHead,
    spec: AttributeSpecification,
) -> Option<Value<'a>> {
    let none = NoAbbreviations::default();
    let bytes = EndianSlice::new(data.get(*at..)?, LittleEndian);
    let mut entries = EntriesRaw::new(bytes, head.encoding, &none, UnitOffset(*at));
    let value = entries.read_attribute(spec).ok()?.value();
    *at = entries.next_offset().0;
    Some(value)
}

impl<'a> Root<'a> {
    /// Reads the root entry without the other abbreviations. `None` if it is damaged or of another kind.
    pub fn read(space: &Space<'a>, head: &UnitHead, work: &mut Work) -> Option<Self> {
        let data = space.info.get(..head.end)?;
        let mut at = head.entries;
        let code = uleb(data, &mut at)?;
        let (found, read) = abbreviations::root(space.abbrev, head.abbreviations, code);
        let (tag, specs) = found.filter(|(_, specs)| work.take(read + 16 * specs.len()))?;
        let root = Self::of(space, head, &mut at, &specs)?;
        Some(Self { is_partial: tag == dw::DW_TAG_partial_unit, ..root })
    }

    /// Reads the root entry of a unit whose abbreviations are known; it is not told whether the unit is partial.
    pub fn read_known(
        space: &Space<'a>,
        head: &UnitHead,
        known: &Abbreviations,
        work: &mut Work,
    ) -> Option<Self> {
        let data = space.info.get(..head.end)?;
        let mut at = head.entries;
        match known.get(uleb(data, &mut at)?) {
            Some(shape) => {
                let specs = Abbreviations::specs(shape, space.abbrev, head.abbreviations);
                work.take(16 * specs.len()).then(|| Self::of(space, head, &mut at, &specs))?
            }
            // The table is damaged before it.
            None => Self::read(space, head, work),
        }
    }

    /// Reads a root entry, whose attributes begin at a position.
    fn of(
        space: &Space<'a>,
        head: &UnitHead,
        at: &mut usize,
        specs: &[AttributeSpecification],
    ) -> Option<Self> {
        let data = space.info.get(..head.end)?;
        let file_type = space.dwarf.file_type;
        let mut root = Self {
            low_pc: 0,
            bounds: Bounds::default(),
            is_partial: false,
            has_scopes: true,
            lines: None,
            name: None,
            directory: None,
            split: None,
            id: None,
            str_offsets: DebugStrOffsetsBase::default_for_encoding_and_file(head.encoding, file_type),
            addresses: DebugAddrBase(0),
            rnglists: DebugRngListsBase::default_for_encoding_and_file(head.encoding, file_type),
        };
        let (mut name, mut directory, mut split, mut split_id) = (None, None, None, head.dwo_id);
        attributes(
            data,
            at,
            head,
            specs,
            |_| true,
            |attribute, value| match (attribute, value) {
                (attribute, value) if root.bounds.take(attribute, value) => {}
                (dw::DW_AT_name, value) => name = Some(value),
                (dw::DW_AT_language, AttributeValue::Language(language)) => {
                    root.has_scopes = has_scopes(language);
                }
                (dw::DW_AT_comp_dir, value) => directory = Some(value),
                (dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name, value) => split = Some(value),
                (dw::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => root.lines = Some(offset),
                (dw::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    root.str_offsets = base
                }
                (dw::DW_AT_addr_base | dw::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                    root.addresses = base;
                }
                (
                    dw::DW_AT_rnglists_base | dw::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => {
                    root.rnglists = base;
                }
                (dw::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => split_id = split_id.or(Some(id.0)),
                _ => {}
            },
        )?;
        // Their forms may need the bases, which may come later.
        if let Some(value) = root.bounds.low_pc {
            root.low_pc = root.address(space, head, value)?;
        }
        let string = |value: Option<Value<'a>>| value.and_then(|value| root.string(space, head, value));
        let (name, directory, split) = (string(name), string(directory), string(split));
        (root.split, root.id) = (split.zip(split_id), split_id);
        (root.name, root.directory) = (name, directory);
        Some(root)
    }

    pub fn address(&self, space: &Space<'a>, head: &UnitHead, value: Value<'a>) -> Option<u64> {
        match value {
            AttributeValue::Addr(address) => Some(address),
            AttributeValue::DebugAddrIndex(DebugAddrIndex(index)) => {
                let size = head.encoding.address_size;
                space.dwarf.debug_addr.get_address(size, self.addresses, DebugAddrIndex(index)).ok()
            }
            _ => None,
        }
    }

    pub fn string(&self, space: &Space<'a>, head: &UnitHead, value: Value<'a>) -> Option<Slice<'a>> {
        match value {
            AttributeValue::String(string) => Some(string),
            AttributeValue::DebugStrRef(offset) => {
                let strings = gimli::Section::reader(&space.dwarf.debug_str).slice();
                let text = CStr::from_bytes_until_nul(strings.get(offset.0..)?).ok()?;
                Some(EndianSlice::new(text.to_bytes(), LittleEndian))
            }
            AttributeValue::DebugLineStrRef(offset) => space.dwarf.debug_line_str.get_str(offset).ok(),
            AttributeValue::DebugStrRefSup(offset) => space.dwarf.sup()?.debug_str.get_str(offset).ok(),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let offsets = &space.dwarf.debug_str_offsets;
                let offset = offsets.get_str_offset(head.encoding.format, self.str_offsets, index).ok()?;
                space.dwarf.debug_str.get_str(offset).ok()
            }
            _ => None,
        }
    }

    /// The address ranges of an entry, at most [`MAX_RANGES_OF_ENTRY`]. Empty ones are left out.
    #[inline]
    pub fn ranges(
        &self,
        space: &Space<'a>,
        head: &UnitHead,
        bounds: &Bounds<'a>,
        work: &mut Work,
        mut each: impl FnMut(Range<u64>),
    ) -> Option<()> {
        let dwarf = &space.dwarf;
        let offset = match bounds.ranges {
            Some(AttributeValue::RangeListsRef(RawRangeListsOffset(offset))) => {
                // Split units of the GNU kind count from the base of their skeleton.
                let is_based = dwarf.file_type == DwarfFileType::Dwo && head.encoding.version < 5;
                RangeListsOffset(if is_based { offset.checked_add(self.rnglists.0)? } else { offset })
            }
            Some(AttributeValue::DebugRngListsIndex(DebugRngListsIndex(index))) => {
                dwarf.ranges.get_offset(head.encoding, self.rnglists, DebugRngListsIndex(index)).ok()?
            }
            Some(_) => return None,
            None => {
                let low = self.address(space, head, bounds.low_pc?)?;
                let high = match bounds.high_pc? {
                    AttributeValue::Udata(length) => low.checked_add(length)?,
                    value => self.address(space, head, value)?,
                };
                if low < high {
                    each(low..high);
                }
                return Some(());
            }
        };
        let mut count = 0;
        let mut enter = |begin: u64, end: u64| {
            if begin < end {
                each(begin..end);
            }
            count += 1;
            count < MAX_RANGES_OF_ENTRY
        };
        let section = gimli::Section::reader(dwarf.ranges.debug_rnglists()).slice();
        let mut at = offset.0;
        let mut base = self.low_pc;
        if head.encoding.version >= 5 && head.encoding.address_size == 8 {
            // Most lists have nothing else than these.
            while let Some(kind) = section.get(at) {
                let mut next = at + 1;
                let (begin, end) = match gimli::DwRle(*kind) {
                    dw::DW_RLE_end_of_list => return Some(()),
                    dw::DW_RLE_base_address => {
                        base = u64::from_le_bytes(*section.get(next..)?.first_chunk()?);
                        at = next + 8;
                        if !work.take(8) {
                            return Some(());
                        }
                        continue;
                    }
                    dw::DW_RLE_offset_pair => {
                        let (begin, end) = (uleb(section, &mut next)?, uleb(section, &mut next)?);
                        let begin = if base < TOMBSTONE { base.wrapping_add(begin) } else { TOMBSTONE };
                        (begin, base.wrapping_add(end))
                    }
                    dw::DW_RLE_start_length => {
                        let begin = u64::from_le_bytes(*section.get(next..)?.first_chunk()?);
                        next += 8;
                        (begin, begin.wrapping_add(uleb(section, &mut next)?))
                    }
                    _ => break,
                };
                at = next;
                if !work.take(8) || begin < TOMBSTONE && !enter(begin, end) {
                    return Some(());
                }
            }
        }
        let offset = RangeListsOffset(at);
        let list = dwarf.ranges.ranges(offset, head.encoding, base, &dwarf.debug_addr, self.addresses);
        let mut list = list.ok()?;
        // Entries that are no range cost work, too.
        while let (true, Ok(Some(raw))) = (work.take(8), list.next_raw()) {
            match list.convert_raw(raw) {
                Ok(Some(range)) if enter(range.begin, range.end) => {}
                Ok(None) => {}
                _ => break,
            }
        }
        Some(())
    }
}

/// Whether functions of a language are in namespaces and types, and have names without them. Functions of Rust have linkage names.
fn has_scopes(language: gimli::DwLang) -> bool {
    matches!(
        language,
        dw::DW_LANG_C_plus_plus
            | dw::DW_LANG_C_plus_plus_03
            | dw::DW_LANG_C_plus_plus_11
            | dw::DW_LANG_C_plus_plus_14
            | dw::DW_LANG_C_plus_plus_17
            | dw::DW_LANG_C_plus_plus_20
    )
}

/// Code of this address and behind was dropped by the linker.
const TOMBSTONE: u64 = u64::MAX - 1;

/// The attributes that tell the addresses of an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds<'a> {
    pub low_pc: Option<Value<'a>>,
    pub high_pc: Option<Value<'a>>,
    pub ranges: Option<Value<'a>>,
}

impl<'a> Bounds<'a> {
    /// Takes an attribute if it is one of them.
    #[inline]
    pub fn take(&mut self, name: DwAt, value: Value<'a>) -> bool {
        let place = match name {
            dw::DW_AT_low_pc => &mut self.low_pc,
            dw::DW_AT_high_pc => &mut self.high_pc,
            dw::DW_AT_ranges => &mut self.ranges,
            _ => return false,
        };
        *place = Some(value);
        true
    }
}

impl<'a> View<'a> {
    /// The section up to the end of the unit.
    pub fn data(&self) -> &'a [u8] {
        self.space.info.get(..self.head.end).unwrap_or_default()
    }

    /// The shape of the entry at a position, which moves behind its number. `Some(None)` for the end of a list of children.
    #[inline]
    pub fn shape(&self, at: &mut usize) -> Option<Option<&Shape>> {
        match uleb(self.data(), at)? {
            0 => Some(None),
            code => self.abbreviations.get(code).map(Some),
        }
    }

    /// Reads the attributes of an entry of this shape that are about functions and calls. `each` may be given others as well.
    #[inline]
    pub fn attributes(
        &self,
        shape: &Shape,
        at: &mut usize,
        work: &mut Work,
        mut each: impl FnMut(DwAt, Value<'a>),
    ) -> Option<()> {
        let (data, head) = (self.data(), &self.head);
        let Some(steps) = self.abbreviations.steps(shape) else {
            let specs = Abbreviations::specs(shape, self.space.abbrev, head.abbreviations);
            if !work.take(16 * specs.len()) {
                return None;
            }
            return attributes(data, at, head, &specs, is_asked, each);
        };
        if !work.take(4 * steps.len()) {
            return None;
        }
        for step in steps {
            match step {
                Step::Skip(skip) => Abbreviations::skip_step(*skip, data, at, head.encoding)?,
                Step::Plain(name, plain) => each(*name, plain_value(data, at, *plain)?),
                Step::Other(spec) => each(spec.name(), other_value(data, at, head, *spec)?),
            }
        }
        Some(())
    }

    pub fn string(&self, value: Value<'a>) -> Option<Slice<'a>> {
        self.root.string(&self.space, &self.head, value)
    }

    /// The address ranges of an entry.
    pub fn ranges(&self, bounds: &Bounds<'a>, work: &mut Work, each: impl FnMut(Range<u64>)) -> Option<()> {
        self.root.ranges(&self.space, &self.head, bounds, work, each)
    }
}

/// A line or a column; 0 if it is none.
pub(crate) fn small(value: Value<'_>) -> u32 {
    value.udata_value().and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}
