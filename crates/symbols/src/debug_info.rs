//! Functions, lines and inlined functions from the debug information of one file.
//!
//! Guaranteed: only the file that was given, its checked supplementary file and its split units are read. Each name is made readable once.

use std::fs::File;
use std::ops::Range;

use dwarf::{DebugFile, Frame, Reader, SharedBytes, TextId};
use elf::Section;

use crate::debug_file::{Alternate, Search};
use crate::debug_sections::DebugSections;
use crate::demangle::{demangle, is_mangled};
use crate::elf_file::ElfFile;
use crate::identity::identity;
use crate::packed_texts::PackedTexts;
use crate::saved_names::SavedNames;
use crate::shared_text::SharedText;
use crate::source_line::{MAX_TEXT, SourceLine, cut};
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
    /// By number of the text in the reader.
    texts: Vec<Text>,
    /// Readable names of an earlier run, by number of the text.
    saved: Option<(SharedBytes, PackedTexts)>,
    /// The generation of the reader whose texts these are.
    generation: u64,
    /// The supplementary file; outer `None`: not searched.
    alternate: Option<Option<Alternate>>,
    split_log: SplitLog,
    /// The sections of the file and of its supplementary file. `None` if they were released.
    sections: Option<(DebugSections, Option<DebugSections>)>,
}

/// A name or a path, as far as it was needed.
#[derive(Clone, Default)]
struct Text {
    own: Option<SharedText>,
    /// As in the source.
    readable: Option<SharedText>,
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
        Self {
            elf: elf.clone(),
            code,
            reader: Reader::new(),
            texts: Vec::new(),
            saved: None,
            generation: 0,
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
        let found = match self.reader.known(addresses) {
            Some(found) => found,
            None => self.read(addresses, file, search, has_function, stats)?,
        };
        if self.generation != self.reader.generation() {
            self.generation = self.reader.generation();
            self.texts.clear();
            self.saved = None;
        }
        let mut left = MAX_ANSWER;
        Some(found.into_iter().map(|found| found.map(|found| self.convert(&found, &mut left))).collect())
    }

    fn read(
        &mut self,
        addresses: &[u64],
        file: Option<&File>,
        search: &Search<'_>,
        has_function: &dyn Fn(u64) -> bool,
        stats: &mut Stats,
    ) -> Option<Vec<Option<dwarf::Found>>> {
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
        };
        let mut split = SplitFiles::new(search, &mut self.split_log);
        Some(self.reader.find(&debug_file, &mut split, addresses))
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
        self.texts.clear();
        self.generation = self.reader.generation();
        (self.split_log, self.saved) = (log, Some((SharedBytes::clone(bytes), readable)));
        true
    }

    /// Whether more is known than was restored.
    pub fn has_news(&self) -> bool {
        self.reader.has_news()
    }

    /// The parts for [`Self::restore`]: files of split units, functions, readable names. `None` if they are not fit for a later run.
    pub fn save(&self) -> Option<[Vec<u8>; 3]> {
        let texts = (0..self.reader.texts()).map(|number| {
            let readable = self.texts.get(number).and_then(|text| text.readable.as_deref());
            readable.or_else(|| self.saved_readable(number)).unwrap_or_default()
        });
        let mut readable = Vec::new();
        PackedTexts::write(texts, &mut readable)?;
        Some([self.split_log.save()?, self.reader.save()?, readable])
    }

    fn saved_readable(&self, number: usize) -> Option<&str> {
        let (bytes, texts) = self.saved.as_ref()?;
        texts.get((**bytes).as_ref(), number).filter(|text| !text.is_empty())
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
        let (name, system_name) = frame.name.map(|name| self.names(name)).unwrap_or_default();
        SourceLine {
            name,
            system_name,
            file: frame.file.map(|file| self.text(file)).unwrap_or_default(),
            line: frame.line,
            column: frame.column,
            start_line: frame.start_line,
        }
    }

    /// A text as it is in the file.
    fn text(&mut self, id: TextId) -> SharedText {
        let number = id.number();
        if let Some(Text { own: Some(known), .. }) = self.texts.get(number) {
            return known.clone();
        }
        let text = self.reader.shared_text(id);
        let own: SharedText = if text.len() > MAX_TEXT { cut(&text).into() } else { text.into() };
        if self.texts.len() <= number && number < self.reader.texts() {
            self.texts.resize(self.reader.texts(), Text::default());
        }
        if let Some(place) = self.texts.get_mut(number) {
            place.own = Some(own.clone());
        }
        own
    }

    /// A name as in the source, and as it is in the file.
    fn names(&mut self, id: TextId) -> (SharedText, SharedText) {
        let own = self.text(id);
        if let Some(Text { readable: Some(known), .. }) = self.texts.get(id.number()) {
            return (known.clone(), own);
        }
        let readable = match self.saved_readable(id.number()) {
            Some(saved) => saved.into(),
            None if !is_mangled(&own) => own.clone(),
            None => match demangle(&own) {
                same if same == *own => own.clone(),
                readable => readable.into(),
            },
        };
        if let Some(place) = self.texts.get_mut(id.number()) {
            place.readable = Some(readable.clone());
        }
        (readable, own)
    }

    /// Frees decompressed sections. What was read of functions stays.
    pub fn release(&mut self) {
        self.sections = None;
    }

    pub fn heap_bytes(&self) -> usize {
        let sections = self.sections.as_ref();
        let inflated = sections
            .map_or(0, |(own, other)| own.heap_bytes() + other.as_ref().map_or(0, DebugSections::heap_bytes));
        let readable = self.texts.iter().filter_map(|text| text.readable.as_ref());
        inflated
            + self.reader.heap_bytes()
            + readable.map(|name| name.len()).sum::<usize>()
            + self.texts.capacity() * size_of::<Text>()
    }
}
