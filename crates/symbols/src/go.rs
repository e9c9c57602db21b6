//! Functions, files, lines and inlined calls of Go programs, from the table that their own runtime uses.
//!
//! `.gopclntab` stays in programs that were stripped of symbols and DWARF. Layouts of Go 1.20 and later are read in full.
//! Go 1.18 and 1.19 describe inlined calls in another way: an address inside of an inlined call gets its outer function's
//! name without a line. Older programs are left to their symbol tables.
//!
//! Guaranteed: no panic, and bounded work for each address, whatever the bytes are.

use std::cell::Cell;

use elf::gopclntab::{self, Function, PcLnTab, Version};

use crate::elf_file::ElfFile;
use crate::source_line::{MAX_TEXT, SourceLine, text};

/// Inlined calls within each other at one address.
const MAX_INLINED: usize = 256;

/// Where the tables of a Go program are.
#[derive(Debug)]
pub(crate) struct GoTable {
    /// Link-time address of the table.
    address: u64,
    /// Link-time address of the start of the text.
    text: u64,
    /// Link-time address that the positions of inlined calls are relative to, if it was found.
    data: Option<u64>,
}

impl GoTable {
    /// Finds the tables of a Go program.
    pub fn find(file: &ElfFile) -> Option<Self> {
        let (layout, bytes) = (file.layout(), file.bytes());
        let signs = [".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid", ".go.buildinfo"];
        // Searching all data of other programs would take time and find nothing.
        signs.iter().find_map(|name| file.section(name))?;
        let touched = || release_now_and_then(file);
        let table =
            gopclntab::find(layout, bytes, &touched()).filter(|table| table.version >= Version::Go118)?;
        let modules = gopclntab::modules(layout, bytes, &table, &touched());
        let module = modules.into_iter().find(|module| module.points_to_names);
        let text = module.and_then(|module| module.text);
        Some(Self {
            address: table.address,
            text: text.or(Some(table.text_start).filter(|text| *text != 0))?,
            data: module.and_then(|module| module.data),
        })
    }

    /// The functions at an address, innermost first.
    pub fn lookup(&self, file: &ElfFile, address: u64) -> Option<Vec<SourceLine>> {
        let bytes_at = |address: u64| file.layout().bytes_at(file.bytes(), address);
        let table = PcLnTab::parse(bytes_at(self.address)?, self.address)?;
        let position = address.checked_sub(self.text)?;
        let function = table.function_at(position)?;
        let mut offset = position - function.start;
        let mut call_number = table.inlined_call_number(&function, offset);
        if call_number.is_some() && table.version < Version::Go120 {
            return Some(vec![outer(&table, &function, None)]);
        }
        let calls =
            self.data.and_then(|data| bytes_at(data.checked_add(table.inlined_calls(&function)?.into())?));
        let mut lines = Vec::new();
        while let Some(number) = call_number.take()
            && lines.len() < MAX_INLINED
        {
            let Some(call) = calls.and_then(|calls| table.inlined_call(calls, number)) else {
                // The position belongs to a function that is not known.
                return Some(vec![outer(&table, &function, None)]);
            };
            lines.push(source_line(call.name, table.position(&function, offset), call.start_line));
            offset = call.parent_offset;
            call_number = table.inlined_call_number(&function, offset);
        }
        lines.push(outer(&table, &function, Some(offset)));
        Some(lines)
    }
}

/// Releases the memory of a file that is searched, at every hundredth call.
fn release_now_and_then(file: &ElfFile) -> impl Fn() + '_ {
    let calls = Cell::new(0u32);
    move || {
        calls.set(calls.get().wrapping_add(1));
        if calls.get().is_multiple_of(100) {
            file.release();
        }
    }
}

/// The function that all inlined calls are part of, with the position at an offset from its start.
fn outer(table: &PcLnTab<'_>, function: &Function<'_>, offset: Option<u64>) -> SourceLine {
    let name = table.name(function, 2 * MAX_TEXT).unwrap_or_default();
    let position = offset.map(|offset| table.position(function, offset)).unwrap_or_default();
    source_line(name, position, function.start_line)
}

fn source_line(name: &[u8], (file, line): (Option<&[u8]>, Option<u32>), start_line: u32) -> SourceLine {
    let name = text(name);
    SourceLine {
        system_name: name.clone(),
        name,
        file: text(file.unwrap_or_default()),
        line: line.unwrap_or(0),
        column: 0,
        start_line,
    }
}
