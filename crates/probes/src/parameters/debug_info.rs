//! The debug information of a file, as far as parameters need it: functions by address, parameters, types and members by name.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, DwarfSections, EndianSlice,
    Expression, LittleEndian, SectionId, Unit, UnitOffset, constants as dw,
};

use super::error::ParameterError;
use crate::image::Image;

/// The content of a section.
pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Sections<'f> = DwarfSections<Cow<'f, [u8]>>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;
type Value<'a> = AttributeValue<Slice<'a>>;

/// Larger sections are not decompressed.
const MAX_SECTION: u64 = 1 << 30;
/// Units, entries and ranges that are looked at, all together.
const MAX_WORK: usize = 1 << 25;
/// Typedefs, origins and nested anonymous members that are followed.
const MAX_DEPTH: usize = 32;

/// An entry of the debug information.
#[derive(Clone)]
pub(super) struct Die<'a> {
    pub unit: Rc<Unit<Slice<'a>>>,
    offset: UnitOffset,
}

/// A member of a structure.
pub(super) struct Member<'a> {
    /// Bytes from the begin of the structure.
    pub offset: i64,
    /// The lowest bit from there on, and the number of bits, if it is a part of a word.
    pub bits: Option<(u64, u64)>,
    pub kind: Die<'a>,
}

pub(super) struct DebugInfo<'a> {
    dwarf: Dwarf<Slice<'a>>,
    /// What may still be looked at.
    left: Cell<usize>,
}

/// The sections of a file.
pub(super) fn sections(image: &Image) -> Result<Sections<'_>, ParameterError> {
    if image.layout.section(b".debug_info").is_none() {
        return Err(ParameterError::NoDebugInfo);
    }
    let section = |id: SectionId| {
        let found = image.layout.section(id.name().as_bytes());
        let bytes = found.map(|found| {
            found.decompressed(&image.bytes, MAX_SECTION).ok_or(ParameterError::damaged("a section"))
        });
        Ok::<_, ParameterError>(bytes.transpose()?.unwrap_or_default())
    };
    DwarfSections::load(section)
}

impl<'a> DebugInfo<'a> {
    pub fn new(sections: &'a Sections<'_>) -> Self {
        let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        Self { dwarf, left: Cell::new(MAX_WORK) }
    }

    /// Counts one piece of work.
    fn work(&self) -> Result<(), ParameterError> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| ParameterError::damaged("it has too much in it"))?);
        Ok(())
    }

    /// The function that has an address.
    pub fn function(&self, address: u64) -> Result<Die<'a>, ParameterError> {
        let mut units = self.dwarf.units();
        while let Some(header) = units.next()? {
            self.work()?;
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            if !self.may_have(&unit, address)? {
                continue;
            }
            if unit.dwo_name()?.is_some() {
                let reason = "debug information that is split off into .dwo files";
                return Err(ParameterError::Unsupported(reason.to_owned()));
            }
            let mut found = None;
            let mut entries = unit.entries();
            while let Some(entry) = entries.next_dfs()? {
                self.work()?;
                if entry.tag() == dw::DW_TAG_subprogram && self.has(&unit, entry, address)? {
                    found = Some(entry.offset());
                    break;
                }
            }
            if let Some(offset) = found {
                return Ok(Die { unit: Rc::new(unit), offset });
            }
        }
        Err(ParameterError::NoFunction)
    }

    /// Whether a unit may have code at an address: it does not tell of other code only.
    fn may_have(&self, unit: &Unit<Slice<'a>>, address: u64) -> Result<bool, ParameterError> {
        let (mut ranges, mut any) = (self.dwarf.unit_ranges(unit)?, false);
        while let Some(range) = ranges.next()? {
            self.work()?;
            any = true;
            if (range.begin..range.end).contains(&address) {
                return Ok(true);
            }
        }
        Ok(!any)
    }

    fn has(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>, address: u64) -> Result<bool, ParameterError> {
        let mut ranges = self.dwarf.die_ranges(unit, entry)?;
        while let Some(range) = ranges.next()? {
            self.work()?;
            if (range.begin..range.end).contains(&address) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub fn entry(&self, die: &Die<'a>) -> Result<Entry<'a>, ParameterError> {
        Ok(die.unit.entry(die.offset)?)
    }

    /// The parameters of a function in their order.
    pub fn parameters(&self, function: &Die<'a>) -> Result<Vec<Die<'a>>, ParameterError> {
        self.children(function, |tag| tag == dw::DW_TAG_formal_parameter)
    }

    /// A parameter by its name, and how many stand before it.
    pub fn parameter(&self, function: &Die<'a>, name: &str) -> Result<(usize, Die<'a>), ParameterError> {
        let mut known = Vec::new();
        for (number, parameter) in self.parameters(function)?.into_iter().enumerate() {
            match self.name(&parameter)? {
                Some(of_it) if of_it == name => return Ok((number, parameter)),
                of_it => known.extend(of_it),
            }
        }
        Err(ParameterError::UnknownParameter { name: name.to_owned(), known })
    }

    /// The expression of a place, for an address of code. None: there is none.
    pub fn location(&self, die: &Die<'a>, at: u64) -> Result<Option<Expression<Slice<'a>>>, ParameterError> {
        let value = match self.entry(die)?.attr_value(dw::DW_AT_location) {
            None => return Ok(None),
            Some(AttributeValue::Exprloc(expression)) => return Ok(Some(expression)),
            Some(value) => value,
        };
        let Some(mut list) = self.dwarf.attr_locations(&die.unit, value)? else { return Ok(None) };
        while let Some(item) = list.next()? {
            self.work()?;
            if (item.range.begin..item.range.end).contains(&at) {
                return Ok(Some(item.data));
            }
        }
        Ok(None)
    }

    /// The type of a parameter or member.
    pub fn type_of(&self, die: &Die<'a>) -> Result<Die<'a>, ParameterError> {
        self.result_type(die)?.ok_or(ParameterError::damaged("something has no type"))
    }

    /// The type of the result of a function; none if it has none.
    pub fn result_type(&self, function: &Die<'a>) -> Result<Option<Die<'a>>, ParameterError> {
        let found = self.attribute(function, dw::DW_AT_type)?;
        found.map(|(of, value)| self.follow(&of, value)).transpose()
    }

    /// A type without its other names and qualifiers.
    pub fn stripped(&self, kind: &Die<'a>) -> Result<Die<'a>, ParameterError> {
        let mut kind = kind.clone();
        for _ in 0..MAX_DEPTH {
            match self.entry(&kind)?.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => match self.result_type(&kind)? {
                    Some(next) => kind = next,
                    None => {
                        return Err(ParameterError::Unsupported("a value without a type (void)".to_owned()));
                    }
                },
                _ => return Ok(kind),
            }
        }
        Err(ParameterError::damaged("a type has too many names"))
    }

    /// What a pointer or reference leads to. `member`: what is looked for there.
    pub fn pointed_at(&self, kind: &Die<'a>, member: &str) -> Result<Die<'a>, ParameterError> {
        let entry = self.entry(kind)?;
        match entry.tag() {
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let void = || ParameterError::Unsupported("a pointer without a type (void *)".to_owned());
                self.result_type(kind)?.ok_or_else(void)
            }
            other => Err(ParameterError::NoMembers {
                member: member.to_owned(),
                found: Self::tag_name(other).to_owned(),
                wanted: "pointer",
            }),
        }
    }

    /// A member of a structure by its name, also of its anonymous members and base classes.
    pub fn member(&self, kind: &Die<'a>, name: &str) -> Result<Member<'a>, ParameterError> {
        let entry = self.entry(kind)?;
        if !is_structure(entry.tag()) {
            let (member, found) = (name.to_owned(), Self::tag_name(entry.tag()).to_owned());
            return Err(ParameterError::NoMembers { member, found, wanted: "structure" });
        }
        let of = self.name(kind)?.unwrap_or_else(|| "the structure".to_owned());
        if entry.has_attr(dw::DW_AT_declaration) {
            return Err(ParameterError::Unsupported(format!(
                "members of {of}, which is only declared where the function is"
            )));
        }
        let mut known = Vec::new();
        match self.member_within(kind, name, 0, MAX_DEPTH, &mut known)? {
            Some(member) => Ok(member),
            None => Err(ParameterError::UnknownMember { member: name.to_owned(), of, known }),
        }
    }

    fn member_within(
        &self,
        kind: &Die<'a>,
        name: &str,
        base: i64,
        depth: usize,
        known: &mut Vec<String>,
    ) -> Result<Option<Member<'a>>, ParameterError> {
        let is_wanted = |tag| matches!(tag, dw::DW_TAG_member | dw::DW_TAG_inheritance);
        for child in self.children(kind, is_wanted)? {
            let entry = self.entry(&child)?;
            // A member of the class itself, not of its objects.
            if entry.has_attr(dw::DW_AT_external) {
                continue;
            }
            let own = self.name(&child)?.filter(|_| entry.tag() == dw::DW_TAG_member);
            if own.as_deref() == Some(name) {
                let bits = bits(&entry, || self.size(&self.stripped(&self.type_of(&child)?)?))?;
                let offset = base.saturating_add(byte_offset(&entry)?);
                return Ok(Some(Member { offset, bits, kind: self.type_of(&child)? }));
            }
            if let Some(own) = own {
                known.push(own);
                continue;
            }
            let inner = self.stripped(&self.type_of(&child)?)?;
            if depth > 0 && is_structure(self.entry(&inner)?.tag()) {
                let base = base.saturating_add(byte_offset(&entry)?);
                if let Some(found) = self.member_within(&inner, name, base, depth - 1, known)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The bytes of a type.
    pub fn size(&self, kind: &Die<'a>) -> Result<Option<u64>, ParameterError> {
        let entry = self.entry(kind)?;
        if let Some(size) = entry.attr_value(dw::DW_AT_byte_size).and_then(|size| size.udata_value()) {
            return Ok(Some(size));
        }
        // Of an enumeration with an underlying type.
        match entry.tag() {
            dw::DW_TAG_enumeration_type => {
                let inner = self.result_type(kind)?.map(|inner| self.stripped(&inner)).transpose()?;
                inner.map_or(Ok(None), |inner| {
                    Ok(self
                        .entry(&inner)?
                        .attr_value(dw::DW_AT_byte_size)
                        .and_then(|size| size.udata_value()))
                })
            }
            _ => Ok(None),
        }
    }

    fn encoding(&self, kind: &Die<'a>) -> Result<Option<dw::DwAte>, ParameterError> {
        Ok(match self.entry(kind)?.attr_value(dw::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => Some(encoding),
            _ => None,
        })
    }

    pub fn is_float(&self, kind: &Die<'a>) -> Result<bool, ParameterError> {
        let floats = [
            dw::DW_ATE_float,
            dw::DW_ATE_complex_float,
            dw::DW_ATE_imaginary_float,
            dw::DW_ATE_decimal_float,
        ];
        Ok(self.encoding(kind)?.is_some_and(|encoding| floats.contains(&encoding)))
    }

    pub fn is_signed(&self, kind: &Die<'a>) -> Result<bool, ParameterError> {
        let signed = [dw::DW_ATE_signed, dw::DW_ATE_signed_char];
        if let Some(encoding) = self.encoding(kind)? {
            return Ok(signed.contains(&encoding));
        }
        let inner = self.result_type(kind)?.map(|inner| self.stripped(&inner)).transpose()?;
        let of_inner = inner.map(|inner| self.encoding(&inner)).transpose()?.flatten();
        Ok(of_inner.is_some_and(|encoding| signed.contains(&encoding)))
    }

    /// Whether a pointer or an array is of characters.
    pub fn is_text(&self, kind: &Die<'a>) -> Result<bool, ParameterError> {
        let Some(inner) = self.result_type(kind)? else { return Ok(false) };
        let Ok(inner) = self.stripped(&inner) else { return Ok(false) };
        let is_character = matches!(
            self.encoding(&inner)?,
            Some(dw::DW_ATE_signed_char | dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF)
        );
        Ok(is_character && self.size(&inner)? == Some(1) && self.name(&inner)?.as_deref() == Some("char"))
    }

    /// Whether objects of a class are passed by their address.
    pub fn is_passed_by_reference(&self, kind: &Die<'a>) -> Result<bool, ParameterError> {
        Ok(match self.entry(kind)?.attr_value(dw::DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(convention)) => convention == dw::DW_CC_pass_by_reference,
            _ => false,
        })
    }

    /// Whether a type asks for an alignment.
    pub fn is_aligned(&self, kind: &Die<'a>) -> Result<bool, ParameterError> {
        Ok(self.entry(kind)?.has_attr(dw::DW_AT_alignment))
    }

    /// A name for what has a tag.
    pub fn tag_name(tag: dw::DwTag) -> &'static str {
        match tag {
            dw::DW_TAG_structure_type => "a structure",
            dw::DW_TAG_class_type => "a class",
            dw::DW_TAG_union_type => "a union",
            dw::DW_TAG_array_type => "an array",
            dw::DW_TAG_base_type => "a number",
            dw::DW_TAG_enumeration_type => "an enumeration",
            dw::DW_TAG_pointer_type => "a pointer",
            dw::DW_TAG_subroutine_type => "a function",
            _ => "something else",
        }
    }

    /// Its name, or that of what it was made of.
    fn name(&self, die: &Die<'a>) -> Result<Option<String>, ParameterError> {
        let Some((of, value)) = self.attribute(die, dw::DW_AT_name)? else { return Ok(None) };
        let name = self.dwarf.attr_string(&of.unit, value)?;
        Ok(Some(String::from_utf8_lossy(name.slice()).into_owned()))
    }

    /// An attribute of an entry, or of what it was made of.
    fn attribute(
        &self,
        die: &Die<'a>,
        name: dw::DwAt,
    ) -> Result<Option<(Die<'a>, Value<'a>)>, ParameterError> {
        let mut die = die.clone();
        for _ in 0..MAX_DEPTH {
            let entry = self.entry(&die)?;
            if let Some(value) = entry.attr_value(name) {
                return Ok(Some((die, value)));
            }
            let origin = entry
                .attr_value(dw::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(dw::DW_AT_specification));
            let Some(origin) = origin else { return Ok(None) };
            die = self.follow(&die, origin)?;
        }
        Ok(None)
    }

    fn follow(&self, from: &Die<'a>, value: Value<'a>) -> Result<Die<'a>, ParameterError> {
        match value {
            AttributeValue::UnitRef(offset) => Ok(Die { unit: Rc::clone(&from.unit), offset }),
            AttributeValue::DebugInfoRef(offset) => self.at(offset),
            _ => Err(ParameterError::Unsupported("a type in a type unit or in another file".to_owned())),
        }
    }

    fn at(&self, offset: DebugInfoOffset) -> Result<Die<'a>, ParameterError> {
        let mut units = self.dwarf.units();
        while let Some(header) = units.next()? {
            self.work()?;
            if let Some(inside) = offset.to_unit_offset(&header) {
                return Ok(Die { unit: Rc::new(self.dwarf.unit(header)?), offset: inside });
            }
        }
        Err(ParameterError::damaged("a reference leads nowhere"))
    }

    /// The children of an entry whose tags are wanted.
    fn children(
        &self,
        of: &Die<'a>,
        is_wanted: impl Fn(dw::DwTag) -> bool,
    ) -> Result<Vec<Die<'a>>, ParameterError> {
        let mut tree = of.unit.entries_tree(Some(of.offset))?;
        let mut children = tree.root()?.children();
        let mut wanted = Vec::new();
        while let Some(child) = children.next()? {
            self.work()?;
            if is_wanted(child.entry().tag()) {
                wanted.push(Die { unit: Rc::clone(&of.unit), offset: child.entry().offset() });
            }
        }
        Ok(wanted)
    }
}

fn is_structure(tag: dw::DwTag) -> bool {
    matches!(tag, dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type)
}

/// Where a member begins. Those of unions have no offset.
fn byte_offset(entry: &Entry<'_>) -> Result<i64, ParameterError> {
    match entry.attr_value(dw::DW_AT_data_member_location) {
        None => Ok(0),
        Some(value) => value.udata_value().and_then(|offset| i64::try_from(offset).ok()).ok_or_else(|| {
            ParameterError::Unsupported("a member whose place is computed (a virtual base)".to_owned())
        }),
    }
}

/// The lowest bit of a member that is a part of a word, from the begin of the member on, and the number of its bits.
fn bits(
    entry: &Entry<'_>,
    size_of_type: impl FnOnce() -> Result<Option<u64>, ParameterError>,
) -> Result<Option<(u64, u64)>, ParameterError> {
    let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
    let Some(width) = number(dw::DW_AT_bit_size) else { return Ok(None) };
    if let Some(lowest) = number(dw::DW_AT_data_bit_offset) {
        return Ok(Some((lowest, width)));
    }
    // Before DWARF 4 bits were counted from the highest one of the word on.
    let from_top = number(dw::DW_AT_bit_offset).unwrap_or(0);
    let size = match number(dw::DW_AT_byte_size) {
        Some(size) => Some(size),
        None => size_of_type()?,
    };
    let all = size.and_then(|size| size.checked_mul(8));
    let lowest = all.and_then(|all| all.checked_sub(from_top)?.checked_sub(width));
    lowest
        .map(|lowest| Some((lowest, width)))
        .ok_or(ParameterError::damaged("bits are outside of their word"))
}
