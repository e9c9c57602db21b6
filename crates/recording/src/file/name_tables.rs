//! Names as a file has them: texts, lists of lines, the list of each frame, and where functions without a name begin.
//!
//! All three are in the order of the frames, so equal names give equal files, in whichever order they were found. Most texts and
//! lists are first referred to in the order of their numbers. A reference is therefore 0 for the first item that was not referred to
//! so far, and otherwise the distance from it back to an earlier item: such references compress well.

use profile::Svma;
use serde::{Deserialize, Serialize};

use crate::file::check::{self, Problem};
use crate::frame::FrameId;
use crate::names::{Line, NameOutcome, NameTables, Names};

/// A frame with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamedFrame {
    /// Frames without a name between the last frame and this one.
    skipped: u32,
    /// Reference to the list of lines.
    list: u32,
}

/// Names with texts and lists in the order of a file.
#[derive(Debug)]
pub(super) struct NumberedNames<'a> {
    tables: &'a NameTables,
    /// Frames with the numbers that their lists have in `tables`, by frame.
    frames: Vec<(FrameId, u32)>,
    lists: Order,
    texts: Order,
}

impl<'a> NumberedNames<'a> {
    /// Brings texts and lists into order.
    pub(super) fn of(names: &'a Names) -> Self {
        let tables = names.tables();
        let mut frames: Vec<_> = tables.frames.iter().map(|(frame, list)| (*frame, *list)).collect();
        frames.sort_unstable();
        let mut lists = Order::of(tables.lists.len());
        for (_, list) in &frames {
            lists.add(*list);
        }
        let mut texts = Order::of(tables.texts.len());
        for line in lists.items.iter().filter_map(|list| tables.lists.get(*list)).flatten() {
            for text in [line.name, line.system_name, line.file] {
                texts.add(text);
            }
        }
        Self { tables, frames, lists, texts }
    }

    /// Frames without a name and where their functions begin, by frame.
    pub(super) fn starts(&self) -> impl Iterator<Item = (FrameId, Svma)> {
        let mut starts: Vec<_> = self.tables.starts.iter().map(|(frame, start)| (*frame, *start)).collect();
        starts.sort_unstable();
        starts.into_iter()
    }

    /// The last frame with a name.
    pub(super) fn last_frame(&self) -> Option<FrameId> {
        self.frames.last().map(|(frame, _)| *frame)
    }

    /// The texts in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.texts.items.iter().filter_map(|text| self.tables.texts.get(*text)).map(|text| &**text)
    }

    /// The lists in order.
    pub(super) fn lists(&self) -> impl Iterator<Item = Vec<Line>> {
        let mut seen = Seen::default();
        self.lists.items.iter().filter_map(|list| self.tables.lists.get(*list)).map(move |list| {
            let mut text = |text: u32| seen.encode(self.texts.number(text));
            let line = |line: &Line| Line {
                name: text(line.name),
                system_name: text(line.system_name),
                file: text(line.file),
                ..line.clone()
            };
            list.iter().map(line).collect()
        })
    }

    /// The frames in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = NamedFrame> {
        let mut seen = Seen::default();
        let mut next = 0;
        self.frames.iter().map(move |(FrameId(frame), list)| {
            let skipped = frame - next;
            next = frame.wrapping_add(1);
            NamedFrame { skipped, list: seen.encode(self.lists.number(*list)) }
        })
    }
}

/// Makes names from what a file has.
#[derive(Debug, Default)]
pub(super) struct NameReader {
    tables: NameTables,
    texts_seen: Seen,
    lists_seen: Seen,
    /// The frame after the last one.
    next_frame: u64,
}

impl NameReader {
    pub(super) fn text(&mut self, text: Box<str>) -> Result<(), Problem> {
        let number = self.tables.texts.len();
        match self.tables.read_text(text) {
            Some(new) if new as usize == number => Ok(()),
            Some(_) => Err(Problem::Invalid("a text comes twice")),
            None => Err(Problem::TooMany),
        }
    }

    pub(super) fn list(&mut self, mut list: Box<[Line]>) -> Result<(), Problem> {
        if list.is_empty() {
            return Err(Problem::Invalid("a list without lines"));
        }
        for Line { name, system_name, file, .. } in &mut list {
            for text in [name, system_name, file] {
                *text = self.texts_seen.decode("text", *text, self.tables.texts.len())?;
            }
        }
        let number = self.tables.lists.len();
        match self.tables.number_of_list(list) {
            Some(new) if new as usize == number => Ok(()),
            Some(_) => Err(Problem::Invalid("a list comes twice")),
            None => Err(Problem::TooMany),
        }
    }

    /// `frames`: how many frames there are.
    pub(super) fn frame(&mut self, named: NamedFrame, frames: usize) -> Result<(), Problem> {
        let frame = u32::try_from(self.next_frame + u64::from(named.skipped)).unwrap_or(u32::MAX);
        check::id("frame", frame, frames)?;
        let list = self.lists_seen.decode("list of lines", named.list, self.tables.lists.len())?;
        self.tables.frames.insert(FrameId(frame), list);
        self.next_frame = u64::from(frame) + 1;
        Ok(())
    }

    /// `frames`: how many frames there are. A frame with a name keeps that alone.
    pub(super) fn start(&mut self, frame: FrameId, start: Svma, frames: usize) -> Result<(), Problem> {
        check::id("frame", frame.0, frames)?;
        if !self.tables.frames.contains_key(&frame) {
            self.tables.starts.insert(frame, start);
        }
        Ok(())
    }

    pub(super) fn finish(self, outcome: NameOutcome) -> Names {
        Names::from_tables(self.tables, outcome)
    }
}

/// The order in which items are first used.
#[derive(Debug)]
struct Order {
    /// The items in order.
    items: Vec<u32>,
    /// By item, its position in `items`; `u32::MAX` for items that are not used.
    numbers: Vec<u32>,
}

impl Order {
    fn of(items: usize) -> Self {
        Self { items: Vec::new(), numbers: vec![u32::MAX; items] }
    }

    fn add(&mut self, item: u32) {
        if let Some(number) = self.numbers.get_mut(item as usize).filter(|number| **number == u32::MAX) {
            *number = self.items.len() as u32;
            self.items.push(item);
        }
    }

    fn number(&self, item: u32) -> u32 {
        self.numbers.get(item as usize).copied().unwrap_or(u32::MAX)
    }
}

/// How many items were referred to so far.
#[derive(Debug, Default)]
struct Seen(u32);

impl Seen {
    /// The reference to the item with a number: an earlier one, or the next one.
    fn encode(&mut self, number: u32) -> u32 {
        let back = self.0.wrapping_sub(number);
        self.0 += u32::from(back == 0);
        back
    }

    /// The number of the item that is referred to, of this many.
    fn decode(&mut self, kind: &'static str, back: u32, items: usize) -> Result<u32, Problem> {
        let number =
            self.0.checked_sub(back).ok_or(Problem::Invalid("a reference to before the first item"))?;
        check::id(kind, number, items)?;
        self.0 += u32::from(back == 0);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_go_both_ways_and_new_items_are_zeros() {
        let numbers = [0, 0, 1, 2, 1, 3, 0];
        let (mut encoder, mut decoder) = (Seen::default(), Seen::default());
        let references = numbers.map(|number| encoder.encode(number));
        assert_eq!(references, [0, 1, 0, 0, 2, 0, 4]);
        assert_eq!(references.map(|back| decoder.decode("item", back, 4).unwrap()), numbers);
        assert!(decoder.decode("item", 0, 4).is_err() && decoder.decode("item", 5, 4).is_err());
    }
}
