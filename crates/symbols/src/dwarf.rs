//! Functions, lines and inlined functions from DWARF, read by blazesym.
//!
//! Guaranteed: each file has its own reader, which is dropped with the file, so no answer is about another file that had the
//! same path before. The reader opens only the file that it was given. If it panics on damaged debug information, it is
//! dropped, and the file's symbol tables are used.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

use crate::debug_file::Search;
use crate::demangle::demangle;
use crate::elf_file::ElfFile;
use crate::private_copy::{Alternate, copy, descriptor_path, needs_copy};
use crate::source_line::{SourceLine, cut, text};
use crate::stats::Stats;

/// Addresses given to the reader at once; bounds the memory of its answers.
const BATCH: usize = 512;

/// The debug information of one file.
pub(crate) struct Dwarf {
    reader: Symbolizer,
    source: Source<'static>,
    /// These keep the paths of the source valid.
    _file: File,
    _alternate: Option<File>,
    /// Size of the private copy.
    copied: usize,
    /// Size of the sections that the reader parses into its own memory, piece by piece.
    encoded: usize,
    looked_up: usize,
}

/// Roughly the memory that one lookup adds to the reader: the lines and functions of a unit.
const UNIT_BYTES: usize = 64 << 10;

/// The functions at an address according to DWARF.
#[derive(Debug)]
pub(crate) struct Found {
    /// Innermost first.
    pub lines: Vec<SourceLine>,
    /// First address of the outermost function, if it is in one piece.
    pub function: Option<u64>,
}

/// The DWARF reader panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl Dwarf {
    /// Prepares the debug information in `elf`, and in the supplementary file that it names. `None` if it cannot be read, which is
    /// counted.
    pub fn open(elf: &ElfFile, file: Option<File>, search: &Search<'_>, stats: &mut Stats) -> Option<Self> {
        let alternate = file.as_ref().and_then(|file| search.alternate(elf, file));
        let opened = Self::new(elf, file, alternate).inspect_err(|error| {
            tracing::debug!("read debug information of {}: {error}", search.path.display());
            stats.unreadable_debug_info += 1;
        });
        opened.ok()
    }

    /// Prepares the debug information in `elf`, whose open file is `file`. `alternate` is its checked supplementary file.
    ///
    /// # Errors
    /// Those of making a private copy, if one is needed.
    fn new(elf: &ElfFile, file: Option<File>, alternate: Option<(File, ElfFile)>) -> io::Result<Self> {
        let alternate = match alternate {
            Some((_, elf)) if needs_copy(&elf) => Some((copy(&elf, None)?, elf)),
            other => other,
        };
        let mut copied = 0;
        let file = match file {
            Some(file) if !needs_copy(elf) => file,
            _ => {
                let path = alternate.as_ref().map(|(file, _)| descriptor_path(file));
                let build_id = alternate.as_ref().and_then(|(_, elf)| elf.build_id());
                let link = match (&path, &build_id) {
                    (Some(path), Some(build_id)) => Some(Alternate { path, build_id }),
                    _ => None,
                };
                let copy = copy(elf, link.as_ref())?;
                copied = copy.metadata()?.len() as usize;
                copy
            }
        };
        let reader = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_demangling(false)
            .set_debug_dirs(Some(Vec::<PathBuf>::new()))
            .build();
        let source = Source::Elf(Elf::new(descriptor_path(&file)));
        let encoded =
            [".debug_info", ".debug_line"].iter().filter_map(|name| elf.section(name)).map(|s| s.size);
        Ok(Self {
            reader,
            source,
            _file: file,
            _alternate: alternate.map(|(file, _)| file),
            copied,
            encoded: usize::try_from(encoded.sum::<u64>()).unwrap_or(usize::MAX),
            looked_up: 0,
        })
    }

    /// Looks addresses up, in order. `None` for addresses that DWARF and `.symtab` do not know.
    pub fn find(&mut self, addresses: &[u64]) -> Result<Vec<Option<Found>>, Panicked> {
        self.looked_up = self.looked_up.saturating_add(addresses.len());
        let mut out = Vec::with_capacity(addresses.len());
        for batch in addresses.chunks(BATCH) {
            // The reader is dropped after a panic, so its state may be inconsistent.
            let found = catch_unwind(AssertUnwindSafe(|| {
                match self.reader.symbolize(&self.source, Input::VirtOffset(batch)) {
                    Ok(found) => found.into_iter().map(|s| s.into_sym().and_then(|s| convert(&s))).collect(),
                    Err(error) => {
                        tracing::debug!("read debug information: {error:#}");
                        Vec::new()
                    }
                }
            }));
            let mut found = found.map_err(|_| Panicked)?;
            found.resize_with(batch.len(), || None);
            out.append(&mut found);
        }
        Ok(out)
    }

    /// An estimate, because the reader does not report its memory.
    pub fn heap_bytes(&self) -> usize {
        let parsed = self.looked_up.saturating_mul(UNIT_BYTES).min(self.encoded.saturating_mul(4));
        self.copied.saturating_add(parsed)
    }
}

fn convert(sym: &Sym<'_>) -> Option<Found> {
    if sym.name.is_empty() {
        return None;
    }
    let mut lines: Vec<SourceLine> =
        sym.inlined.iter().rev().map(|f| source_line(&f.name, f.code_info.as_ref())).collect();
    lines.push(source_line(&sym.name, sym.code_info.as_deref()));
    Some(Found { lines, function: sym.size.map(|_| sym.addr) })
}

fn source_line(name: &str, code: Option<&CodeInfo<'_>>) -> SourceLine {
    SourceLine {
        name: demangle(name),
        system_name: cut(name).to_owned(),
        file: code.map(|c| text(c.to_path().as_os_str().as_bytes())).unwrap_or_default(),
        line: code.and_then(|c| c.line).unwrap_or(0),
        column: code.and_then(|c| c.column).unwrap_or(0).into(),
        start_line: 0,
    }
}
