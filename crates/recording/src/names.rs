//! Names of frames: a side table of a recording, made by symbolization.
//!
//! Texts come again and again, most of all paths of source files, so each is kept once: a named frame costs a few dozen bytes.

use std::collections::HashMap;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::fetches::Fetches;
use crate::frame::FrameId;
use profile::{Function, Interner, Svma};

/// Texts and lists of lines that are kept at most.
const LIMIT: u32 = 1_000_000;

/// Bytes of texts and lists that are kept at most.
const MAX_BYTES: usize = 256 << 20;

/// A longer text is cut.
const LONGEST_TEXT: usize = 4096;

/// A line of source at a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameLine<'a> {
    /// Function, demangled.
    pub name: &'a str,
    /// Function as the symbol table has it.
    pub system_name: &'a str,
    /// Source file, or empty.
    pub file: &'a str,
    /// Line in the file, or 0.
    pub line: u32,
    /// Column, or 0.
    pub column: u32,
    /// First line of the function, or 0.
    pub start_line: u32,
}

impl From<NameLine<'_>> for Function {
    fn from(line: NameLine<'_>) -> Self {
        Self {
            name: line.name.to_owned(),
            system_name: line.system_name.to_owned(),
            filename: line.file.to_owned(),
            start_line: line.start_line,
        }
    }
}

/// Whether kernel addresses could be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelNaming {
    /// There were no kernel frames.
    #[default]
    NotAsked,
    /// They could.
    Known,
    /// The kernel hides its addresses from this process.
    Hidden,
    /// Its symbols could not be read, for this reason.
    Unreadable(String),
}

/// What else is to be said about the names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameOutcome {
    /// Whether kernel addresses could be named.
    pub kernel: KernelNaming,
    /// Frames that were not looked up because symbolization was abandoned.
    pub abandoned: u64,
    /// What else could not be named or used, and why: perf maps, sources that panicked, kernel frames that keep their names.
    pub shortfalls: Vec<String>,
    /// What was fetched, if debuginfod servers were configured. In files it has a section of its own.
    #[serde(skip)]
    pub fetches: Option<Fetches>,
}

/// A line whose texts are numbers of texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: u32,
    pub(crate) system_name: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) start_line: u32,
}

/// What names consist of: each text and each list of lines once, and the list of each frame.
#[derive(Clone, Debug)]
pub(crate) struct NameTables {
    pub(crate) texts: Interner<Box<str>>,
    pub(crate) lists: Interner<Box<[Line]>>,
    pub(crate) frames: HashMap<FrameId, u32>,
    /// Where the functions of frames without a name begin.
    pub(crate) starts: HashMap<FrameId, Svma>,
    /// Bytes of texts and lists that may still be added.
    bytes_left: usize,
}

impl NameTables {
    /// The number of a text. `None` if it is new and a limit is reached.
    fn number_of_text(&mut self, text: &str) -> Option<u32> {
        self.read_text(text[..text.floor_char_boundary(LONGEST_TEXT)].into())
    }

    /// The number of a text of any length. `None` if it is new and a limit is reached.
    pub(crate) fn read_text(&mut self, text: Box<str>) -> Option<u32> {
        let bytes = text.len();
        Self::number(&mut self.texts, &mut self.bytes_left, text, bytes)
    }

    /// The number of a list. `None` if it is new and a limit is reached.
    pub(crate) fn number_of_list(&mut self, list: Box<[Line]>) -> Option<u32> {
        let bytes = size_of_val(&*list);
        Self::number(&mut self.lists, &mut self.bytes_left, list, bytes)
    }

    fn number<T: Eq + Hash>(items: &mut Interner<T>, left: &mut usize, item: T, bytes: usize) -> Option<u32> {
        if bytes > *left {
            return items.find(&item);
        }
        let before = items.len();
        let number = items.number(item);
        if items.len() > before {
            *left -= bytes;
        }
        number
    }
}

impl Default for NameTables {
    fn default() -> Self {
        Self {
            texts: Interner::with_limit(LIMIT),
            lists: Interner::with_limit(LIMIT),
            frames: HashMap::new(),
            starts: HashMap::new(),
            bytes_left: MAX_BYTES,
        }
    }
}

/// The lines that stand at frames of one recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    tables: NameTables,
    /// Frames whose names were not kept.
    not_kept: u64,
    /// What else is to be said.
    pub outcome: NameOutcome,
}

impl Names {
    /// Names that consist of these tables, in which every number must have an item.
    pub(crate) fn from_tables(tables: NameTables, outcome: NameOutcome) -> Self {
        Self { tables, not_kept: 0, outcome }
    }

    /// The tables.
    pub(crate) fn tables(&self) -> &NameTables {
        &self.tables
    }

    /// Enters the lines at a frame, the innermost function first. Long texts are cut. The frame keeps what it has, and is counted, if a
    /// limit is reached: the number of texts or lists, or their bytes.
    pub fn enter<'a>(&mut self, frame: FrameId, lines: impl IntoIterator<Item = NameLine<'a>>) {
        let list: Option<Box<[Line]>> = lines.into_iter().map(|line| self.line(line)).collect();
        if list.as_ref().is_some_and(|list| list.is_empty()) {
            return;
        }
        match list.and_then(|list| self.tables.number_of_list(list)) {
            Some(list) => {
                self.tables.frames.insert(frame, list);
                self.tables.starts.remove(&frame);
            }
            None => self.not_kept += 1,
        }
    }

    /// Enters where the function of a frame begins. A frame with a name keeps that alone.
    pub fn enter_start(&mut self, frame: FrameId, start: Svma) {
        if !self.has(frame) {
            self.tables.starts.insert(frame, start);
        }
    }

    /// Where the function of a frame without a name begins, if that is known.
    #[must_use]
    pub fn start(&self, frame: FrameId) -> Option<Svma> {
        self.tables.starts.get(&frame).copied()
    }

    /// How many times lines were not entered because a limit was reached.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    fn line(&mut self, line: NameLine<'_>) -> Option<Line> {
        let NameLine { name, system_name, file, line, column, start_line } = line;
        let mut number = |text| self.tables.number_of_text(text);
        let (name, system_name, file) = (number(name)?, number(system_name)?, number(file)?);
        Some(Line { name, system_name, file, line, column, start_line })
    }

    /// The lines at a frame, the innermost function first; none if the frame has no name.
    pub fn of(&self, frame: FrameId) -> impl ExactSizeIterator<Item = NameLine<'_>> + Clone {
        let list = self
            .tables
            .frames
            .get(&frame)
            .and_then(|list| self.tables.lists.get(*list))
            .map_or(&[][..], |list| &**list);
        let text = |number: u32| self.tables.texts.get(number).map_or("", |text| &**text);
        list.iter().map(move |line| NameLine {
            name: text(line.name),
            system_name: text(line.system_name),
            file: text(line.file),
            line: line.line,
            column: line.column,
            start_line: line.start_line,
        })
    }

    /// Whether a frame has a name.
    #[must_use]
    pub fn has(&self, frame: FrameId) -> bool {
        self.tables.frames.contains_key(&frame)
    }

    /// All frames with a name, in no particular order.
    pub fn frames(&self) -> impl Iterator<Item = FrameId> {
        self.tables.frames.keys().copied()
    }

    /// How many frames have a name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.frames.len()
    }

    /// Whether no frame has a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, line: u32) -> NameLine<'_> {
        NameLine { name, system_name: name, file: "/src/file.c", line, column: 3, start_line: 1 }
    }

    #[test]
    fn a_frame_gets_back_its_lines_and_texts_are_kept_once() {
        let mut names = Names::default();
        for frame in 0..1000 {
            names.enter(FrameId(frame), [line("inlined", frame % 10), line("outer", 7)]);
        }
        names.enter(FrameId(1000), []);
        let found: Vec<_> = names.of(FrameId(13)).collect();
        assert_eq!(found, [line("inlined", 3), line("outer", 7)]);
        assert_eq!((names.of(FrameId(1000)).len(), names.has(FrameId(1000)), names.len()), (0, false, 1000));
        assert_eq!((names.tables.texts.len(), names.tables.lists.len()), (3, 10));
    }

    #[test]
    fn the_start_of_a_function_stands_for_its_name_until_that_is_known() {
        let mut names = Names::default();
        names.enter_start(FrameId(1), Svma(0x10));
        names.enter(FrameId(2), [line("known", 1)]);
        names.enter_start(FrameId(2), Svma(0x20));
        assert_eq!((names.start(FrameId(1)), names.start(FrameId(2))), (Some(Svma(0x10)), None));
        assert_eq!((names.has(FrameId(1)), names.len()), (false, 1));
        names.enter(FrameId(1), [line("known", 1)]);
        assert_eq!((names.start(FrameId(1)), names.has(FrameId(1))), (None, true));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut() {
        let mut names = Names::default();
        let text = "é".repeat(LONGEST_TEXT);
        names.enter(FrameId(0), [line(&text, 1)]);
        names.enter(FrameId(1), [line(&text[..100], 1)]);
        names.enter(FrameId(2), [line(&text[..LONGEST_TEXT], 1)]);
        let name = |frame| names.of(FrameId(frame)).next().map(|line| line.name);
        assert_eq!([0, 1, 2].map(name), [LONGEST_TEXT, 100, LONGEST_TEXT].map(|end| Some(&text[..end])));
        names.enter(FrameId(3), [line(&format!("a{text}"), 1)]);
        assert_eq!(names.of(FrameId(3)).next().map(|line| line.name.len()), Some(LONGEST_TEXT - 1));
    }

    #[test]
    fn texts_and_lists_have_a_limit_of_bytes_and_known_ones_are_still_entered() {
        let mut names = Names::default();
        let list = size_of::<Line>();
        names.tables.bytes_left = "/src/file.c".len() + 2 * ("function".len() + list);
        names.enter(FrameId(0), [line("function", 1)]);
        names.enter(FrameId(1), [line("another", 1)]);
        assert_eq!((names.len(), names.not_kept()), (2, 0));
        names.enter(FrameId(2), [line("too much", 1)]);
        names.enter(FrameId(3), [line("function", 2)]);
        names.enter(FrameId(4), []);
        names.enter(FrameId(1), [line("too much", 1)]);
        assert_eq!((names.len(), names.not_kept()), (2, 3));
        names.enter(FrameId(5), [line("function", 1)]);
        assert_eq!((names.len(), names.not_kept(), names.tables.bytes_left), (3, 3, 1));
        assert_eq!(names.of(FrameId(1)).next().map(|line| line.name), Some("another"));
    }
}
