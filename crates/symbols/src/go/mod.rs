//! Functions, files, lines and inlined calls of Go programs, from the table that their own runtime uses.
//!
//! `.gopclntab` stays in binaries that were stripped of symbols and DWARF. Layouts of Go 1.20 and later are read
//! in full. Go 1.18 and 1.19 describe inlined calls otherwise: there, an address inside of an inlined call gets its
//! outer function's name without a line. Older programs are left to their symbol tables.
//!
//! Guaranteed: no panic, and bounded work per address, whatever the bytes are.

mod module;

use crate::SourceLine;
use crate::elf::{ElfFile, u32_of, u64_of};
use module::Module;

const MAGIC_1_18: u32 = 0xffff_fff0;
const MAGIC_1_20: u32 = 0xffff_fff1;
const HEADER_SIZE: usize = 72;

/// Names and paths are not longer.
const MAX_TEXT: usize = 64 << 10;
/// Steps through the delta-coded table of one function.
const MAX_STEPS: usize = 1 << 17;
/// Nested inlined calls at one address.
const MAX_INLINED: usize = 256;

const PCDATA_INLINE_INDEX: u32 = 2;
const FUNCDATA_INLINE_TREE: u32 = 3;

/// Where the tables of a Go program are.
#[derive(Debug)]
pub(crate) struct GoTable {
    /// Link-time address of the table.
    address: u64,
    header: Header,
    module: Module,
}

/// Positions in the table.
#[derive(Clone, Copy, Debug)]
struct Header {
    has_start_lines: bool,
    quantum: u64,
    functions: usize,
    /// Address of the first function as old linkers store it, else 0.
    text: u64,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functab: usize,
}

impl Header {
    fn parse(table: &[u8]) -> Option<Self> {
        let bytes = table.get(..HEADER_SIZE)?;
        let magic = u32_of(&bytes[0..4]);
        let (padding, quantum, pointer) = (&bytes[4..6], bytes[6], bytes[7]);
        if !matches!(magic, MAGIC_1_18 | MAGIC_1_20)
            || padding != [0, 0]
            || !matches!(quantum, 1 | 2 | 4)
            || pointer != 8
        {
            return None;
        }
        let word = |index: usize| u64_of(&bytes[8 * index..8 * index + 8]);
        let position = |index: usize| usize::try_from(word(index)).ok().filter(|p| *p <= table.len());
        Some(Self {
            has_start_lines: magic == MAGIC_1_20,
            quantum: quantum.into(),
            functions: position(1).filter(|n| *n <= table.len() / 8)?,
            text: word(3),
            names: position(4)?,
            units: position(5)?,
            files: position(6)?,
            values: position(7)?,
            functab: position(8)?,
        })
    }
}

/// One function of the table.
struct Function<'t> {
    entry: u64,
    name: u32,
    files: u32,
    lines: u32,
    unit: u32,
    start_line: u32,
    /// Offsets of the tables of values per address.
    pcdata: &'t [u8],
    /// Offsets of other data from [`Module::data`].
    funcdata: &'t [u8],
}

impl GoTable {
    /// Finds the tables of a Go program.
    pub fn find(file: &ElfFile) -> Option<Self> {
        let address = table_address(file)?;
        let header = Header::parse(file.at_address(address)?)?;
        let module = Module::find(file, address, &header)?;
        Some(Self { address, header, module })
    }

    /// The functions at an address, innermost first.
    pub fn lookup(&self, file: &ElfFile, address: u64) -> Option<Vec<SourceLine>> {
        let table = Table { bytes: file.at_address(self.address)?, header: &self.header };
        let function = table.function(address.checked_sub(self.module.text)?)?;
        let mut lines = Vec::new();
        let mut pc = address - self.module.text;
        let mut index = table.inline_index(&function, pc);
        if index.is_some() && !self.header.has_start_lines {
            return Some(vec![outer(&table, &function, None)]);
        }
        let tree = self.module.data.and_then(|data| {
            let offset = word(function.funcdata, FUNCDATA_INLINE_TREE).filter(|o| *o != u32::MAX)?;
            file.at_address(data.checked_add(offset.into())?)
        });
        while let Some(at) = index.take()
            && lines.len() < MAX_INLINED
        {
            let call = tree.and_then(|tree| tree.get(16 * at..16 * at + 16));
            let name = call.and_then(|call| table.name(u32_of(&call[4..8])));
            let (Some(call), Some(name)) = (call, name) else {
                // Without the call, the position belongs to a function that is not known.
                return Some(vec![outer(&table, &function, None)]);
            };
            let (file, line) = table.position(&function, pc);
            let start_line = u32_of(&call[12..16]);
            lines.push(SourceLine { system_name: name.clone(), name, file, line, column: 0, start_line });
            pc = function.entry + u64::from(u32_of(&call[8..12]));
            index = table.inline_index(&function, pc);
        }
        lines.push(outer(&table, &function, Some(pc)));
        Some(lines)
    }
}

fn outer(table: &Table<'_>, function: &Function<'_>, pc: Option<u64>) -> SourceLine {
    let name = table.name(function.name).unwrap_or_default();
    let (file, line) = pc.map(|pc| table.position(function, pc)).unwrap_or_default();
    SourceLine { system_name: name.clone(), name, file, line, column: 0, start_line: function.start_line }
}

/// Link-time address of the table.
fn table_address(file: &ElfFile) -> Option<u64> {
    let named = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| file.section(name));
    if let Some(section) = named {
        return Some(section.address);
    }
    // The system linker merges the table into a larger section.
    file.section(".note.go.buildid").or_else(|| file.section(".go.buildinfo"))?;
    let section = file.section(".data.rel.ro")?;
    let index = file.data(section).chunks_exact(8).position(|word| {
        matches!(u32_of(&word[0..4]), MAGIC_1_18 | MAGIC_1_20) && word[4..6] == [0, 0] && word[7] == 8
    })?;
    Some(section.address + 8 * index as u64)
}

fn word(bytes: &[u8], index: u32) -> Option<u32> {
    let at = index as usize * 4;
    Some(u32_of(bytes.get(at..at + 4)?))
}

struct Table<'t> {
    bytes: &'t [u8],
    header: &'t Header,
}

impl<'t> Table<'t> {
    /// The function that covers an address, relative to the start of the text.
    fn function(&self, pc: u64) -> Option<Function<'t>> {
        let pc32 = u32::try_from(pc).ok()?;
        let functab = self.bytes.get(self.header.functab..)?;
        let count = self.header.functions;
        // One entry more than functions: the end of the last one.
        let entry = |index: usize| functab.get(8 * index..8 * index + 4).map(u32_of);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)? <= pc32 { low = middle + 1 } else { high = middle }
        }
        let index = low.checked_sub(1)?;
        if entry(index + 1)? <= pc32 {
            return None;
        }
        let position = u32_of(functab.get(8 * index + 4..8 * index + 8)?) as usize;
        let fields = functab.get(position..)?;
        let arrays = if self.header.has_start_lines { 44 } else { 40 };
        let fixed = fields.get(..arrays)?;
        let tables = word(fixed, 7)? as usize;
        let arrays = &fields[arrays..];
        let pcdata = arrays.get(..tables.checked_mul(4)?)?;
        let funcdata = arrays[pcdata.len()..].get(..4 * usize::from(*fixed.last()?))?;
        Some(Function {
            entry: word(fixed, 0)?.into(),
            name: word(fixed, 1)?,
            files: word(fixed, 5)?,
            lines: word(fixed, 6)?,
            unit: word(fixed, 8)?,
            start_line: if self.header.has_start_lines { word(fixed, 9)? } else { 0 },
            pcdata,
            funcdata,
        })
    }

    fn text(&self, position: usize) -> Option<String> {
        let rest = self.bytes.get(position..)?;
        let rest = &rest[..rest.len().min(MAX_TEXT)];
        let text = &rest[..rest.iter().position(|b| *b == 0)?];
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }

    fn name(&self, offset: u32) -> Option<String> {
        self.text(self.header.names.checked_add(offset as usize)?)
    }

    /// File and line at an address.
    fn position(&self, function: &Function<'_>, pc: u64) -> (String, u32) {
        let file = self.value(function, function.files, pc).and_then(|number| {
            let index = function.unit.checked_add(u32::try_from(number).ok()?)?;
            let offset = word(self.bytes.get(self.header.units..)?, index).filter(|o| *o != u32::MAX)?;
            self.text(self.header.files.checked_add(offset as usize)?)
        });
        let line = self.value(function, function.lines, pc).and_then(|line| u32::try_from(line).ok());
        (file.unwrap_or_default(), line.unwrap_or(0))
    }

    fn inline_index(&self, function: &Function<'_>, pc: u64) -> Option<usize> {
        let table = word(function.pcdata, PCDATA_INLINE_INDEX)?;
        usize::try_from(self.value(function, table, pc)?).ok()
    }

    /// The value at an address in one of the tables of pairs (difference of values, difference of addresses).
    fn value(&self, function: &Function<'_>, offset: u32, target: u64) -> Option<i32> {
        if offset == 0 {
            return None;
        }
        let mut bytes = self.bytes.get(self.header.values.checked_add(offset as usize)?..)?;
        let (mut pc, mut value) = (function.entry, -1i32);
        for step in 0..MAX_STEPS {
            let delta = varint(&mut bytes)?;
            if delta == 0 && step != 0 {
                return None;
            }
            let signed = (delta >> 1) as i32 ^ -((delta & 1) as i32);
            value = value.wrapping_add(signed);
            pc += u64::from(varint(&mut bytes)?) * self.header.quantum;
            if target < pc {
                return Some(value);
            }
        }
        None
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
