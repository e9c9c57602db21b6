//! Functions, lines and inlined functions from the debug information of one file.
//!
//! Guaranteed: only the file that was given, its checked supplementary file and its split units are read. Each name is made readable once.

use std::fs::File;
use std::ops::Range;

use dwarf::{DebugFile, Frame, Reader, TextId};
use elf::Section;

use crate::debug_file::Search;
use crate::debug_sections::DebugSections;
use crate::demangle::demangle;
use crate::elf_file::ElfFile;
use crate::shared_text::SharedText;
use crate::source_line::{MAX_TEXT, SourceLine, cut};
use crate::split_files::SplitFiles;
use crate::stats::Stats;

/// Bytes of all texts of an answer. Beyond that only outermost functions are told: a file can give a long name to each inlined call.
const MAX_ANSWER: usize = 256 << 20;

/// The debug information of one file.
pub(crate) struct DebugInfo {
    elf: ElfFile,
    /// Sorted.
    code: Vec<Range<u64>>,
    reader: Reader,
    /// Names as in the source, by number of the name in the reader.
    readable: Vec<Option<SharedText>>,
    /// The generation of the reader whose names these are.
    generation: u64,
    /// The sections of the file and of its supplementary file. `None` if they were released.
    sections: Option<(DebugSections, Option<DebugSections>)>,
}

/// The functions at an address according to debug information.
#[derive(Debug)]
pub(crate) struct Found {
    /// Innermost first. If only the line is known, one without a name.
    pub lines: Vec<SourceLine>,
    /// First address of the outermost function, if it is in one piece.
    pub function: Option<u64>,
}

impl DebugInfo {
    /// The debug information in `elf`. Nothing is read yet.
    pub fn of(elf: &ElfFile) -> Self {
        let code = elf.sections().iter().filter(|section| section.is_code());
        let mut code: Vec<_> = code.map(Section::addresses).collect();
        code.sort_by_key(|range| range.start);
        let (reader, readable) = (Reader::new(), Vec::new());
        Self { elf: elf.clone(), code, reader, readable, generation: 0, sections: None }
    }

    /// Looks addresses up, in order. `None` for addresses that it does not know; for all if it is damaged, which is counted. `has_function`:
    /// whether there may be a function at an address.
    pub fn find(
        &mut self,
        addresses: &[u64],
        file: Option<&File>,
        search: &Search<'_>,
        has_function: &dyn Fn(u64) -> bool,
        stats: &mut Stats,
    ) -> Option<Vec<Option<Found>>> {
        if self.sections.is_none() {
            let Some(own) = DebugSections::load(&self.elf, "") else {
                tracing::debug!("read debug information of {}: a section is damaged", search.path.display());
                stats.unreadable_debug_info += 1;
                return None;
            };
            let alternate = file.and_then(|file| search.alternate(&self.elf, file));
            self.sections = Some((own, alternate.and_then(|(_, elf)| DebugSections::load(&elf, ""))));
        }
        let (own, supplementary) = self.sections.as_ref()?;
        let debug_file = DebugFile {
            sections: own.get(),
            supplementary: supplementary.as_ref().map(DebugSections::get),
            code: &self.code,
            has_function,
        };
        let found = self.reader.find(&debug_file, &mut SplitFiles::new(search), addresses);
        if self.generation != self.reader.generation() {
            self.generation = self.reader.generation();
            self.readable.clear();
        }
        let mut left = MAX_ANSWER;
        Some(found.into_iter().map(|found| found.map(|found| self.convert(&found, &mut left))).collect())
    }

    fn convert(&mut self, found: &dwarf::Found, left: &mut usize) -> Found {
        let mut lines = Vec::with_capacity(found.frames.len());
        let (outermost, inlined) = match found.frames.split_last() {
            Some((outermost, inlined)) => (outermost, inlined),
            None => return Found { lines, function: found.function },
        };
        let inlined = if *left > 0 { inlined } else { &[] };
        for frame in inlined.iter().chain([outermost]) {
            let line = self.source_line(frame);
            let bytes = line.name.len() + line.system_name.len() + line.file.len();
            *left = left.saturating_sub(bytes);
            lines.push(line);
        }
        Found { lines, function: found.function }
    }

    fn source_line(&mut self, frame: &Frame) -> SourceLine {
        SourceLine {
            name: frame.name.map(|name| self.readable(name)).unwrap_or_default(),
            system_name: frame.name.map(|name| self.text(name)).unwrap_or_default(),
            file: frame.file.map(|file| self.text(file)).unwrap_or_default(),
            line: frame.line,
            column: frame.column,
            start_line: frame.start_line,
        }
    }

    /// A text as it is in the file.
    fn text(&self, id: TextId) -> SharedText {
        let text = self.reader.shared_text(id);
        if text.len() > MAX_TEXT { cut(&text).into() } else { text.into() }
    }

    fn readable(&mut self, name: TextId) -> SharedText {
        let number = name.number();
        if self.readable.len() <= number {
            self.readable.resize(number + 1, None);
        }
        if let Some(Some(known)) = self.readable.get(number) {
            return known.clone();
        }
        let system_name = self.text(name);
        let readable = match demangle(&system_name) {
            same if same == *system_name => system_name,
            readable => readable.into(),
        };
        if let Some(place) = self.readable.get_mut(number) {
            *place = Some(readable.clone());
        }
        readable
    }

    /// Frees decompressed sections. What was read of functions stays.
    pub fn release(&mut self) {
        self.sections = None;
    }

    pub fn heap_bytes(&self) -> usize {
        let sections = self.sections.as_ref();
        let inflated = sections
            .map_or(0, |(own, other)| own.heap_bytes() + other.as_ref().map_or(0, DebugSections::heap_bytes));
        let readable = self.readable.iter().flatten().map(|name| name.len()).sum::<usize>();
        inflated
            + self.reader.heap_bytes()
            + readable
            + self.readable.capacity() * size_of::<Option<SharedText>>()
    }
}
