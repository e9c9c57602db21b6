//! The functions of a `.gopclntab` and their stack-size tables.

use super::header::PcLnTab;
use super::header::Version;
use crate::reader::Reader;

/// `FuncFlagSPWrite`: the function loads sp with something its table cannot say.
const FLAG_SP_WRITE: u8 = 2;
/// The largest delta that still leaves room for the return address; below zero sp is above its value at entry.
const DELTAS: std::ops::Range<i32> = -4096..i32::MAX - 16;

/// One function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function<'t> {
    pub start: u64,
    /// Where the next function starts.
    pub end: u64,
    pub name: &'t [u8],
    pub writes_sp: bool,
    pub pcsp: PcSp<'t>,
}

impl PcLnTab<'_> {
    /// All functions with a stack-size table; malformed entries have an empty one.
    pub(super) fn functions(&self, text: u64) -> impl Iterator<Item = Function<'_>> {
        (0..self.function_count).filter_map(move |index| self.function(index, text))
    }

    /// Offset from the start of text and place of the description, of one function.
    fn entry(&self, index: u64) -> Option<(u64, Option<usize>)> {
        let absolute = self.version == Version::Go116;
        let size = if absolute { 16 } else { 8 };
        let mut r = Reader::at(&self.data, self.functab + usize::try_from(index).ok()? * size);
        if absolute {
            Some((r.u64()?, r.u64().and_then(|at| usize::try_from(at).ok())))
        } else {
            Some((u64::from(r.u32()?), r.u32().map(|at| at as usize)))
        }
    }

    fn function(&self, index: u64, text: u64) -> Option<Function<'_>> {
        let (offset, description) = self.entry(index)?;
        let (next, _) = self.entry(index + 1)?;
        let mut r = Reader::at(&self.data, self.functab.checked_add(description?)?);
        // The entry again; it was 8 bytes long before offsets replaced addresses.
        r.skip(if self.version == Version::Go116 { 8 } else { 4 })?;
        let (name, _args, _deferreturn, pcsp) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        let (_pcfile, _pcln, _npcdata, _cu) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        if self.version == Version::Go120 {
            r.u32()?;
        }
        let (_id, flag) = (r.u8()?, r.u8()?);
        if pcsp == 0 {
            return None;
        }
        // A name that is too long is none of those that matter.
        let names =
            Reader::at(&self.data, self.names.checked_add(name as usize)?).c_str().unwrap_or_default();
        let pcsp = PcSp::new(Reader::at(&self.data, self.pctab.checked_add(pcsp as usize)?));
        Some(Function {
            start: text.checked_add(offset)?,
            end: text.checked_add(next)?,
            name: names.strip_suffix(b".abi0").unwrap_or(names),
            writes_sp: flag & FLAG_SP_WRITE != 0,
            pcsp,
        })
    }
}

/// Iterates over `(from, to, delta)`: offsets inside of the function, and how far sp is below its value at entry.
///
/// Ends with `None` inside if the table is malformed. Every step covers at least one byte of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct PcSp<'t> {
    r: Option<Reader<'t>>,
    first: bool,
    offset: u64,
    delta: i32,
}

impl<'t> PcSp<'t> {
    fn new(r: Reader<'t>) -> Self {
        Self { r: Some(r), first: true, offset: 0, delta: -1 }
    }

    fn step(&mut self) -> Option<Option<(u64, u64, i32)>> {
        let Some(r) = &mut self.r else { return Some(None) };
        let value = u32::try_from(r.uleb()?).ok()?;
        if value == 0 && !self.first {
            self.r = None;
            return Some(None);
        }
        self.first = false;
        self.delta = self.delta.checked_add(((value >> 1) as i32) ^ -((value & 1) as i32))?;
        let from = self.offset;
        let length = u64::from(u32::try_from(r.uleb()?).ok()?);
        self.offset = from.checked_add(length)?;
        if length == 0 || !DELTAS.contains(&self.delta) {
            return None;
        }
        Some(Some((from, self.offset, self.delta)))
    }
}

impl Iterator for PcSp<'_> {
    type Item = Option<(u64, u64, i32)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Some(step) => step.map(Some),
            None => {
                self.r = None;
                Some(None)
            }
        }
    }
}
