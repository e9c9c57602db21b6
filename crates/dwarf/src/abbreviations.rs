//! Abbreviations: what the entries of a unit look like.
//!
//! Most entries are of no interest here, so a table answers how long an entry is, mostly by one number. gimli's own tables ask each
//! attribute of each entry.

use std::collections::BTreeMap;

use gimli::constants::{self as dw, DwAt, DwForm, DwTag};
use gimli::{AttributeSpecification, Encoding, Format};

use crate::bytes::{sleb, uleb};
use crate::forms::{SIZES, Skip, VARIABLE, apply, sizes, skip_of};
use crate::limits::MAX_ABBREVIATIONS;

/// What an entry is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function with code.
    Function,
    /// A call of a function that has no code of its own there.
    Inlined,
    /// A namespace.
    Namespace,
    /// Something else in which functions or inlined calls can be: a unit, a block.
    Scope,
    /// A class, a structure or the like.
    Type,
    /// Anything else, functions without code among them.
    Other,
}

impl Kind {
    fn of(tag: DwTag, has_code: bool) -> Self {
        match tag {
            dw::DW_TAG_subprogram if has_code => Self::Function,
            dw::DW_TAG_inlined_subroutine => Self::Inlined,
            dw::DW_TAG_namespace => Self::Namespace,
            dw::DW_TAG_module
            | dw::DW_TAG_lexical_block
            | dw::DW_TAG_try_block
            | dw::DW_TAG_catch_block
            | dw::DW_TAG_with_stmt
            | dw::DW_TAG_common_block
            | dw::DW_TAG_compile_unit
            | dw::DW_TAG_partial_unit
            | dw::DW_TAG_skeleton_unit => Self::Scope,
            dw::DW_TAG_class_type
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_interface_type => Self::Type,
            _ => Self::Other,
        }
    }

    /// Whether functions and inlined calls can be in it that belong to what is around it.
    pub fn is_scope(self) -> bool {
        matches!(self, Self::Namespace | Self::Scope)
    }
}

/// An entry without its values. Small, because the scan of a unit asks one for each entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub has_children: bool,
    /// Where `DW_AT_sibling` is, as a 4-byte reference, if that is always the same place; else [`NO_SIBLING`].
    sibling: u16,
    /// Bytes of all attributes, if they are always the same; else [`NOT_FIXED`].
    fixed: u32,
    /// Where its attributes are, from the begin of the table.
    specs_at: u32,
    /// Position in [`Abbreviations::walks`], if it is a function or a call, or not fixed; else [`NO_WALK`].
    walk: u32,
}

const NO_SIBLING: u16 = u16::MAX;
const NOT_FIXED: u32 = u32::MAX;
const NO_WALK: u32 = u32::MAX;

/// How to get over the attributes of an entry one by one.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// Positions in [`Abbreviations::skips`].
    skips: (u32, u32),
    /// Positions in [`Abbreviations::steps`], if it is a function or a call.
    steps: Option<(u32, u32)>,
}

/// One step over the attributes of a function or a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Attributes that nobody asks for.
    Skip(Skip),
    /// One that somebody asks for, in a form that compilers write mostly.
    Plain(DwAt, Plain),
    /// The same in another form.
    Other(AttributeSpecification),
}

/// Forms of attributes that compilers write mostly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plain {
    Reference4,
    Address8,
    String4,
    Ranges4,
    Number1,
    Number2,
    Number4,
    Number8,
    Constant(u64),
}

impl Plain {
    /// The form of an attribute, if it is one of them.
    #[inline]
    pub fn of(spec: &AttributeSpecification, encoding: Encoding) -> Option<Self> {
        let is_32 = encoding.format == Format::Dwarf32;
        let is_number = matches!(
            spec.name(),
            dw::DW_AT_call_file
                | dw::DW_AT_call_line
                | dw::DW_AT_call_column
                | dw::DW_AT_decl_line
                | dw::DW_AT_high_pc
        );
        Some(match spec.form() {
            dw::DW_FORM_ref4 => Self::Reference4,
            dw::DW_FORM_addr if encoding.address_size == 8 => Self::Address8,
            dw::DW_FORM_strp if is_32 => Self::String4,
            dw::DW_FORM_sec_offset if is_32 && spec.name() == dw::DW_AT_ranges => Self::Ranges4,
            dw::DW_FORM_data1 if is_number => Self::Number1,
            dw::DW_FORM_data2 if is_number => Self::Number2,
            dw::DW_FORM_data4 if is_number => Self::Number4,
            dw::DW_FORM_data8 if is_number => Self::Number8,
            dw::DW_FORM_implicit_const if is_number => {
                Self::Constant(u64::try_from(spec.implicit_const_value()?).ok()?)
            }
            _ => return None,
        })
    }
}

/// Whether somebody asks for an attribute of a function or a call.
pub(crate) fn is_asked(name: DwAt) -> bool {
    matches!(
        name,
        dw::DW_AT_low_pc
            | dw::DW_AT_high_pc
            | dw::DW_AT_ranges
            | dw::DW_AT_abstract_origin
            | dw::DW_AT_specification
            | dw::DW_AT_name
            | dw::DW_AT_linkage_name
            | dw::DW_AT_MIPS_linkage_name
            | dw::DW_AT_decl_line
            | dw::DW_AT_call_file
            | dw::DW_AT_call_line
            | dw::DW_AT_call_column
    )
}

/// The abbreviations of a unit.
#[derive(Debug, Default)]
pub(crate) struct Abbreviations {
    /// Those with the numbers from 1 on.
    dense: Vec<Shape>,
    /// Those with other numbers.
    sparse: BTreeMap<u64, Shape>,
    walks: Vec<Walk>,
    skips: Vec<Skip>,
    steps: Vec<Step>,
    /// Bytes that were read.
    pub read: usize,
}

impl Abbreviations {
    /// Reads a table. It ends where it is damaged.
    pub fn read(section: &[u8], at: usize, encoding: Encoding) -> Self {
        let mut this = Self::default();
        let mut specs = Vec::new();
        let rest = section.get(at..).unwrap_or_default();
        let rest = &rest[..rest.len().min(MAX_ABBREVIATIONS)];
        let sizes = sizes(encoding);
        let mut at = 0;
        while let Some((code, tag, has_children)) = head(rest, &mut at) {
            let specs_at = at as u32;
            let Some(Outline { has_code, fixed, mut sibling }) = outline(rest, &mut at, &sizes) else {
                return this;
            };
            let has_steps = matches!(tag, dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine);
            let mut walk = NO_WALK;
            // Most others are told by their length.
            if has_steps || fixed.is_none() {
                let mut at = specs_at as usize;
                specs.clear();
                specs.extend(std::iter::from_fn(|| specification(rest, &mut at).flatten()));
                let mut skips = (0, 0);
                if fixed.is_none() {
                    let Some(read) = this.skips_of(&specs, encoding) else { return this };
                    (sibling, skips) = read;
                }
                let steps = if has_steps { this.steps_of(&specs, encoding) } else { None };
                walk = this.walks.len() as u32;
                this.walks.push(Walk { skips, steps });
            }
            let kind = Kind::of(tag, has_code);
            let (fixed, sibling) = (fixed.unwrap_or(NOT_FIXED), sibling.unwrap_or(NO_SIBLING));
            this.insert(code, Shape { kind, has_children, sibling, fixed, specs_at, walk });
            this.read = at;
        }
        // They are kept as long as the file.
        this.dense.shrink_to_fit();
        this.walks.shrink_to_fit();
        this.skips.shrink_to_fit();
        this.steps.shrink_to_fit();
        this
    }

    fn insert(&mut self, code: u64, shape: Shape) {
        if code == self.dense.len() as u64 + 1 && !self.sparse.contains_key(&code) {
            self.dense.push(shape);
        } else if code > self.dense.len() as u64 {
            self.sparse.entry(code).or_insert(shape);
        }
    }

    #[inline]
    pub fn get(&self, code: u64) -> Option<&Shape> {
        let index = usize::try_from(code.wrapping_sub(1)).ok()?;
        self.dense.get(index).or_else(|| self.sparse.get(&code))
    }

    /// The attributes of an entry of this shape, from the section and the position that the table was read from.
    pub fn specs(shape: &Shape, section: &[u8], at: usize) -> Vec<AttributeSpecification> {
        let table = section.get(at..).unwrap_or_default();
        let mut at = shape.specs_at as usize;
        std::iter::from_fn(|| specification(table, &mut at).flatten()).collect()
    }

    /// Whether it is a function, with code or without.
    pub fn is_function(&self, shape: &Shape) -> bool {
        shape.kind == Kind::Function || shape.kind == Kind::Other && self.steps(shape).is_some()
    }

    /// The steps over an entry of this shape, if it is a function or a call.
    #[inline]
    pub fn steps(&self, shape: &Shape) -> Option<&[Step]> {
        let (first, end) = self.walks.get(shape.walk as usize)?.steps?;
        self.steps.get(first as usize..end as usize)
    }

    /// The steps over these attributes. `None` if a form is unknown.
    fn steps_of(&mut self, specs: &[AttributeSpecification], encoding: Encoding) -> Option<(u32, u32)> {
        let first = self.steps.len();
        for spec in specs {
            let skip = skip_of(spec.form(), encoding)?;
            if is_asked(spec.name()) {
                let plain = Plain::of(spec, encoding).map(|plain| Step::Plain(spec.name(), plain));
                self.steps.push(plain.unwrap_or(Step::Other(*spec)));
                continue;
            }
            let is_first = self.steps.len() == first;
            match (skip, self.steps.last_mut()) {
                (Skip::Bytes(0), _) => {}
                (Skip::Bytes(more), Some(Step::Skip(Skip::Bytes(bytes)))) if !is_first => {
                    *bytes = bytes.checked_add(more)?;
                }
                _ => self.steps.push(Step::Skip(skip)),
            }
        }
        Some((first as u32, self.steps.len() as u32))
    }

    /// Where the sibling is, and how to get over these attributes. `None` if a form is unknown.
    fn skips_of(
        &mut self,
        specs: &[AttributeSpecification],
        encoding: Encoding,
    ) -> Option<(Option<u16>, (u32, u32))> {
        let first = self.skips.len();
        let mut sibling = None;
        for spec in specs {
            let skip = skip_of(spec.form(), encoding)?;
            let before = match &self.skips[first..] {
                [] => Some(0),
                [Skip::Bytes(bytes)] => Some(*bytes),
                _ => None,
            };
            if spec.name() == dw::DW_AT_sibling && spec.form() == dw::DW_FORM_ref4 {
                sibling = before.and_then(|before| u16::try_from(before).ok());
            }
            let is_first = self.skips.len() == first;
            match (skip, self.skips.last_mut()) {
                (Skip::Bytes(0), _) => {}
                (Skip::Bytes(more), Some(Skip::Bytes(bytes))) if !is_first => {
                    *bytes = bytes.checked_add(more)?
                }
                _ => self.skips.push(skip),
            }
        }
        Some((sibling, (first as u32, self.skips.len() as u32)))
    }

    /// Gets over one attribute. `None` if it is damaged.
    #[inline]
    pub fn skip_one(form: DwForm, data: &[u8], at: &mut usize, encoding: Encoding) -> Option<()> {
        apply(skip_of(form, encoding)?, data, at, encoding)
    }

    /// Gets over attributes of one step. `None` if they are damaged.
    #[inline]
    pub fn skip_step(skip: Skip, data: &[u8], at: &mut usize, encoding: Encoding) -> Option<()> {
        apply(skip, data, at, encoding)
    }

    /// Gets over the attributes of an entry. `None` if they are damaged.
    #[inline]
    pub fn skip(&self, shape: &Shape, data: &[u8], at: &mut usize, encoding: Encoding) -> Option<()> {
        if shape.fixed != NOT_FIXED {
            *at = at.checked_add(shape.fixed as usize)?;
            return Some(());
        }
        let (first, end) = self.walks.get(shape.walk as usize)?.skips;
        for skip in self.skips.get(first as usize..end as usize)? {
            apply(*skip, data, at, encoding)?;
        }
        Some(())
    }

    /// Where the next entry beside one is, relative to the unit, if it tells so at a fixed place. `at` is where its attributes begin.
    #[inline]
    pub fn sibling(shape: &Shape, data: &[u8], at: usize) -> Option<usize> {
        if shape.sibling == NO_SIBLING {
            return None;
        }
        let at = at.checked_add(usize::from(shape.sibling))?;
        Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?) as usize)
    }
}

/// What the attributes of an entry are together.
struct Outline {
    has_code: bool,
    /// Their bytes, if they are always as many.
    fixed: Option<u32>,
    /// Where the sibling is, if they are.
    sibling: Option<u16>,
}

/// Reads the attributes of an abbreviation up to their end. `None` if they are damaged.
#[inline]
fn outline(data: &[u8], at: &mut usize, sizes: &[u8; SIZES]) -> Option<Outline> {
    let mut read = Outline { has_code: false, fixed: None, sibling: None };
    let (mut all, mut is_fixed) = (0u32, true);
    while let Some(spec) = specification(data, at)? {
        let (name, form) = (spec.name(), spec.form());
        read.has_code |= matches!(name, dw::DW_AT_low_pc | dw::DW_AT_ranges);
        if name == dw::DW_AT_sibling && form == dw::DW_FORM_ref4 {
            read.sibling = u16::try_from(all).ok();
        }
        let size = sizes.get(usize::from(form.0)).copied().unwrap_or(VARIABLE);
        is_fixed &= size != VARIABLE;
        all = all.saturating_add(size.into());
    }
    read.fixed = is_fixed.then_some(all);
    Some(read)
}

/// Tag and attributes of a root entry.
type RootShape = (DwTag, Vec<AttributeSpecification>);

/// The abbreviation of a root entry without reading the others, and the bytes that were read.
pub(crate) fn root(section: &[u8], at: usize, code: u64) -> (Option<RootShape>, usize) {
    let rest = section.get(at..).unwrap_or_default();
    let rest = &rest[..rest.len().min(MAX_ABBREVIATIONS)];
    let mut at = 0;
    let mut find = || {
        let mut specs = Vec::new();
        while let Some((found, tag, _)) = head(rest, &mut at) {
            if found != code {
                skip_specifications(rest, &mut at)?;
                continue;
            }
            while let Some(spec) = specification(rest, &mut at)? {
                specs.push(spec);
            }
            return Some((tag, specs));
        }
        None
    };
    (find(), at)
}

/// Number, tag and whether there are children. `None` at the end.
fn head(data: &[u8], at: &mut usize) -> Option<(u64, DwTag, bool)> {
    let code = uleb(data, at).filter(|code| *code != 0)?;
    let tag = DwTag(u16::try_from(uleb(data, at)?).ok()?);
    let has_children = *data.get(*at)? != 0;
    *at += 1;
    Some((code, tag, has_children))
}

/// Gets over attributes and their end. `None` if they are damaged.
fn skip_specifications(data: &[u8], at: &mut usize) -> Option<()> {
    loop {
        // Most are two bytes.
        match data.get(*at..)?.first_chunk() {
            Some([0, 0]) => {
                *at += 2;
                return Some(());
            }
            Some([name, form]) if name | form < 0x80 && u16::from(*form) != dw::DW_FORM_implicit_const.0 => {
                *at += 2;
            }
            _ if specification(data, at)?.is_none() => return Some(()),
            _ => {}
        }
    }
}

/// One attribute; `Some(None)` behind the last one, `None` if it is damaged.
#[inline]
fn specification(data: &[u8], at: &mut usize) -> Option<Option<AttributeSpecification>> {
    // Most are two bytes.
    if let Some([name, form]) = data.get(*at..)?.first_chunk()
        && *name | *form < 0x80
        && u16::from(*form) != dw::DW_FORM_implicit_const.0
    {
        *at += 2;
        let (name, form) = (DwAt(u16::from(*name)), DwForm(u16::from(*form)));
        let is_end = name.0 == 0 && form.0 == 0;
        return Some((!is_end).then(|| AttributeSpecification::new(name, form, None)));
    }
    let name = u16::try_from(uleb(data, at)?).ok()?;
    let form = u16::try_from(uleb(data, at)?).ok()?;
    if name == 0 && form == 0 {
        return Some(None);
    }
    let (name, form) = (DwAt(name), DwForm(form));
    let value = if form == dw::DW_FORM_implicit_const { Some(sleb(data, at)?) } else { None };
    Some(Some(AttributeSpecification::new(name, form, value)))
}
