//! The lines that stand at places in code. Texts come again and again, most of all the paths of source files: each is
//! kept once, so that a place costs a few dozen bytes.

use std::collections::HashMap;

use symbols::SourceLine;

use super::super::interned::Interned;
use super::super::stacks::PlaceId;

/// A line, by the numbers of its texts.
#[derive(PartialEq, Eq, Hash)]
struct Line {
    name: u32,
    system_name: u32,
    file: u32,
    line: u32,
    column: u32,
    start_line: u32,
}

/// A line, see [`SourceLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Shown<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) system_name: &'a str,
    pub(in super::super) file: &'a str,
    pub(in super::super) line: u32,
    pub(in super::super) column: u32,
    pub(in super::super) start_line: u32,
}

/// What stands at which place.
#[derive(Default)]
pub(super) struct Lines {
    texts: Interned<Box<str>>,
    /// Many places have the same lines.
    lists: Interned<Box<[Line]>>,
    places: HashMap<PlaceId, u32>,
}

impl Lines {
    /// Takes in what was found at a place. It stays without if there are too many.
    pub(super) fn enter(&mut self, place: PlaceId, lines: Vec<SourceLine>) {
        let list: Option<Box<[Line]>> = lines.into_iter().map(|line| self.line(line)).collect();
        if let Some(list) = list.and_then(|list| self.lists.number(list)) {
            self.places.insert(place, list);
        }
    }

    fn line(&mut self, line: SourceLine) -> Option<Line> {
        let SourceLine { name, system_name, file, line, column, start_line } = line;
        let mut number = |text: String| self.texts.number(text.into());
        let (name, system_name, file) = (number(name)?, number(system_name)?, number(file)?);
        Some(Line { name, system_name, file, line, column, start_line })
    }

    /// What stands at a place, the innermost function first; nothing if that was not found.
    pub(super) fn of(&self, place: PlaceId) -> impl ExactSizeIterator<Item = Shown<'_>> + Clone {
        let list = self.places.get(&place).map_or(&[][..], |list| self.lists.get(*list));
        list.iter().map(|line| Shown {
            name: self.texts.get(line.name),
            system_name: self.texts.get(line.system_name),
            file: self.texts.get(line.file),
            line: line.line,
            column: line.column,
            start_line: line.start_line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, line: u32) -> SourceLine {
        let (name, file) = (name.to_owned(), "/src/file.c".to_owned());
        SourceLine { system_name: name.clone(), name, file, line, column: 3, start_line: 1 }
    }

    #[test]
    fn a_place_gets_back_what_was_found_and_texts_are_kept_once() {
        let mut lines = Lines::default();
        for place in 0..1000 {
            lines.enter(place, vec![line("inlined", place % 10), line("outer", 7)]);
        }
        lines.enter(1000, Vec::new());
        let shown: Vec<_> = lines.of(13).collect();
        let outer = Shown {
            name: "outer",
            system_name: "outer",
            file: "/src/file.c",
            line: 7,
            column: 3,
            start_line: 1,
        };
        assert_eq!(shown, [Shown { name: "inlined", system_name: "inlined", line: 3, ..outer }, outer]);
        assert_eq!((lines.of(1000).len(), lines.of(1001).len()), (0, 0));
        assert_eq!((lines.texts.items().len(), lines.lists.items().len()), (3, 11));
    }
}
