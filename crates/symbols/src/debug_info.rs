//! Functions, lines and inlined functions from the debug information of one file.
//!
//! Guaranteed: only the file that was given, its checked supplementary file and its split units are read.

use std::fs::File;
use std::ops::Range;

use dwarf::{DebugFile, Reader, SharedBytes};
use elf::Section;

use crate::debug_file::{Alternate, Search};
use crate::debug_names::DebugNames;
use crate::debug_sections::DebugSections;
use crate::demangle::is_readable;
use crate::elf_file::ElfFile;
use crate::identity::identity;
use crate::packed_texts::PackedTexts;
use crate::saved_names::SavedNames;
use crate::source_line::SourceLine;
use crate::split_files::SplitFiles;
use crate::split_log::SplitLog;
use crate::stats::Stats;

/// Bytes of all texts of an answer. Beyond that only outermost functions are told: a file can give a long name to each inlined call.
const MAX_ANSWER: usize = 256 << 20;

/// The debug information of one file.
pub(crate) struct DebugInfo {
    elf: ElfFile,
    /// Sorted.
    code: Vec<Range<u64>>,
    reader: Reader,
    names: DebugNames,
    /// The supplementary file; outer `None`: not searched.
    alternate: Option<Option<Alternate>>,
    split_log: SplitLog,
    /// The sections of the file and of its supplementary file. `None` if they were released.
    sections: Option<(DebugSections, Option<DebugSections>)>,
}

/// The functions at an address according to debug information.
#[derive(Clone, Debug)]
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
        Self {
            elf: elf.clone(),
            code,
            reader: Reader::new(),
            names: DebugNames::default(),
            alternate: None,
            split_log: SplitLog::default(),
            sections: None,
        }
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
        if !addresses.is_sorted() {
            let mut sorted = addresses.to_vec();
            sorted.sort_unstable();
            let found = self.find(&sorted, file, search, has_function, stats)?;
            let position = |address: &u64| sorted.binary_search(address).ok();
            return Some(
                addresses.iter().map(|address| found.get(position(address)?).cloned().flatten()).collect(),
            );
        }
        if let Some(known) = self.known(addresses) {
            return Some(known);
        }
        self.learn(addresses, file, search, has_function, stats)?;
        let Self { reader, names, .. } = self;
        names.follow(reader);
        let mut found = Vec::with_capacity(addresses.len());
        let mut left = MAX_ANSWER;
        reader.answers(addresses, |frames, function| {
            let convert = || Found { lines: names.lines(reader, frames, &mut left), function };
            found.push((!frames.is_empty()).then(convert));
        });
        Some(found)
    }

    /// The same of sorted addresses, if nothing needs to be read.
    fn known(&mut self, addresses: &[u64]) -> Option<Vec<Option<Found>>> {
        let Self { reader, names, .. } = self;
        let mut found = Vec::with_capacity(addresses.len());
        let mut left = MAX_ANSWER;
        let is_known = reader.known(addresses, |frames, function| {
            let convert = || Found { lines: names.lines(reader, frames, &mut left), function };
            found.push((!frames.is_empty()).then(convert));
        });
        is_known.then_some(found)
    }

    /// Reads what the file says of addresses. `None` if it is damaged.
    fn learn(
        &mut self,
        addresses: &[u64],
        file: Option<&File>,
        search: &Search<'_>,
        has_function: &dyn Fn(u64) -> bool,
        stats: &mut Stats,
    ) -> Option<()> {
        if self.sections.is_none() {
            let Some(own) = DebugSections::load(&self.elf, "") else {
                tracing::debug!("read debug information of {}: a section is damaged", search.path.display());
                stats.unreadable_debug_info += 1;
                return None;
            };
            let alternate = self.alternate(file, search);
            let alternate = alternate.and_then(|alternate| DebugSections::load(&alternate.elf, ""));
            self.sections = Some((own, alternate));
        }
        let (own, supplementary) = self.sections.as_ref()?;
        let debug_file = DebugFile {
            sections: own.get(),
            supplementary: supplementary.as_ref().map(DebugSections::get),
            code: &self.code,
            has_function,
            is_readable,
        };
        let mut split = SplitFiles::new(search, &mut self.split_log);
        self.reader.learn(&debug_file, &mut split, addresses);
        Some(())
    }

    fn alternate(&mut self, file: Option<&File>, search: &Search<'_>) -> Option<&Alternate> {
        let find = || file.and_then(|file| search.alternate(&self.elf, file));
        self.alternate.get_or_insert_with(find).as_ref()
    }

    /// What identifies the supplementary file; empty if there is none. `None` if it may change without notice.
    pub fn identity_of_alternate(&mut self, file: Option<&File>, search: &Search<'_>) -> Option<Vec<u8>> {
        match self.alternate(file, search) {
            Some(alternate) => identity(Some(&alternate.file), &alternate.elf, alternate.is_fetched),
            None => Some(Vec::new()),
        }
    }

    /// Uses what an earlier run learned of the same files. `false` if it is damaged, or if the files of split units are others.
    pub fn restore(&mut self, bytes: &SharedBytes, saved: &SavedNames, search: &Search<'_>) -> bool {
        let data = (**bytes).as_ref();
        let log = data.get(saved.split_files.clone()).and_then(|log| SplitLog::restore(log, search));
        let readable = PackedTexts::read(data, saved.readable.clone());
        let (Some(log), Some(readable)) = (log, readable) else { return false };
        if !self.reader.restore(SharedBytes::clone(bytes), saved.functions.clone()) {
            return false;
        }
        self.names = DebugNames::restore(&self.reader, bytes, readable);
        self.split_log = log;
        true
    }

    /// Whether more is known than was restored.
    pub fn has_news(&self) -> bool {
        self.reader.has_news()
    }

    /// The parts for [`Self::restore`]: files of split units, functions, readable names. `None` if they are not fit for a later run.
    pub fn save(&self) -> Option<[Vec<u8>; 3]> {
        Some([self.split_log.save()?, self.reader.save()?, self.names.save(&self.reader)?])
    }

    /// Frees decompressed sections. What was read of functions stays.
    pub fn release(&mut self) {
        self.sections = None;
    }

    pub fn heap_bytes(&self) -> usize {
        let sections = self.sections.as_ref();
        let inflated = sections
            .map_or(0, |(own, other)| own.heap_bytes() + other.as_ref().map_or(0, DebugSections::heap_bytes));
        inflated + self.reader.heap_bytes() + self.names.heap_bytes()
    }
}
