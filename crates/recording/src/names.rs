//! Names of frames: a side table of a recording, made by symbolization.
//!
//! Texts come again and again, most of all paths of source files, so each is kept once: a named frame costs a few dozen bytes.

use std::collections::HashMap;

use crate::frame::FrameId;
use crate::interner::Interner;

/// Texts and lists of lines that are kept at most.
const LIMIT: usize = 1_000_000;

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

/// Whether kernel addresses could be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameOutcome {
    /// Whether kernel addresses could be named.
    pub kernel: KernelNaming,
    /// Frames that were not looked up because symbolization was abandoned.
    pub abandoned: u64,
    /// Which parts of perf maps were not used, and why.
    pub shortfalls: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Line {
    name: u32,
    system_name: u32,
    file: u32,
    line: u32,
    column: u32,
    start_line: u32,
}

/// The lines that stand at frames of one recording.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Interner<Box<str>>,
    lists: Interner<Box<[Line]>>,
    frames: HashMap<FrameId, u32>,
    /// What else is to be said.
    pub outcome: NameOutcome,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            texts: Interner::with_limit(LIMIT),
            lists: Interner::with_limit(LIMIT),
            frames: HashMap::new(),
            outcome: NameOutcome::default(),
        }
    }
}

impl Names {
    /// Enters the lines at a frame, the innermost function first. The frame stays nameless if a limit is reached.
    pub fn enter<'a>(&mut self, frame: FrameId, lines: impl IntoIterator<Item = NameLine<'a>>) {
        let list: Option<Box<[Line]>> = lines.into_iter().map(|line| self.line(line)).collect();
        if let Some(list) = list.filter(|list| !list.is_empty()).and_then(|list| self.lists.number(list)) {
            self.frames.insert(frame, list);
        }
    }

    fn line(&mut self, line: NameLine<'_>) -> Option<Line> {
        let NameLine { name, system_name, file, line, column, start_line } = line;
        let mut number = |text: &str| self.texts.number(text.into());
        let (name, system_name, file) = (number(name)?, number(system_name)?, number(file)?);
        Some(Line { name, system_name, file, line, column, start_line })
    }

    /// The lines at a frame, the innermost function first; none if the frame has no name.
    pub fn of(&self, frame: FrameId) -> impl ExactSizeIterator<Item = NameLine<'_>> + Clone {
        let list =
            self.frames.get(&frame).and_then(|list| self.lists.get(*list)).map_or(&[][..], |list| &**list);
        let text = |number: u32| self.texts.get(number).map_or("", |text| &**text);
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
        self.frames.contains_key(&frame)
    }

    /// All frames with a name, in no particular order.
    pub fn frames(&self) -> impl Iterator<Item = FrameId> {
        self.frames.keys().copied()
    }

    /// How many frames have a name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frame has a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
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
        assert_eq!((names.texts.len(), names.lists.len()), (3, 10));
    }
}
