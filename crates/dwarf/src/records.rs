//! What is known of functions, packed: each record has the inlined calls and lines of one address range.
//!
//! An address in a range with a record needs no debug information any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{add, put, put_all, put_difference, uleb};
use crate::flatten::Piece;
use crate::limits::MAX_INLINED;
use crate::saved::Saved;
use crate::texts::TextId;

/// A function at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The linkage name, else the name in the source. `None` if only the line is known.
    pub name: Option<TextId>,
    /// The path of the source file.
    pub file: Option<TextId>,
    /// The line, or 0.
    pub line: u32,
    /// The column, or 0.
    pub column: u32,
    /// The line where the function is declared, or 0.
    pub start_line: u32,
}

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The functions, innermost first. Without a function, one frame without a name.
    pub frames: Vec<Frame>,
    /// The first address of the outermost function, if it is in one piece.
    pub function: Option<u64>,
}

/// A function or an inlined call, with the place where it is called.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    /// Its own number for the function.
    pub parent: u32,
    pub name: Option<TextId>,
    pub file: Option<TextId>,
    pub line: u32,
    pub column: u32,
    pub start_line: u32,
}

/// Addresses of one line of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub start: u64,
    pub end: u64,
    pub file: Option<TextId>,
    pub line: u32,
    pub column: u32,
}

/// From this address on, up to the next segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Segment {
    address: u64,
    node: u32,
    /// 0, or one more than the number of a text.
    file: u32,
    line: u32,
    column: u32,
}

/// What a record is made of.
pub(crate) struct Parts<'p> {
    pub start: u64,
    pub end: u64,
    /// The first address of the function, if it is in one piece.
    pub function: Option<u64>,
    /// The function and the calls in it. Empty if only lines are known.
    pub nodes: &'p [Node],
    /// Where the calls are, sorted.
    pub calls: &'p [Piece],
    /// Lines, sorted.
    pub lines: &'p [Line],
}

/// Where the bytes of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Number of a part of [`Records::bytes`], position and length there.
    Own(usize, usize, usize),
    /// Number of the record of an earlier reader.
    Saved(usize),
}

/// Bytes of a part of the records, about.
const PART: usize = 256 << 10;

/// All records of a file.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Those of an earlier reader.
    saved: Option<Saved>,
    /// By start: end, and position in [`Self::bytes`].
    ranges: BTreeMap<u64, (u64, Place)>,
    /// In parts, which are not moved when there are more records.
    bytes: Vec<Vec<u8>>,
    /// Addresses in no unit.
    nothing: BTreeSet<u64>,
    /// Room for nodes and segments of a record, whose number comes before them.
    packed: Vec<u8>,
    /// Room for the positions of nodes.
    positions: Vec<u32>,
}

impl Records {
    /// Packs a record. One at the same start is replaced.
    pub fn add(&mut self, parts: &Parts<'_>) {
        if self.bytes.last().is_none_or(|part| part.len() >= PART) {
            self.bytes.push(Vec::with_capacity(PART + PART / 4));
        }
        let part = self.bytes.len() - 1;
        let Self { bytes, packed, positions, .. } = self;
        let Some(out) = bytes.last_mut() else { return };
        let at = out.len();
        put(out, parts.function.map_or(0, |function| parts.start.wrapping_sub(function).wrapping_add(1)));
        packed.clear();
        positions.clear();
        for node in parts.nodes {
            positions.push(packed.len() as u32);
            put_all(
                packed,
                [node.parent, number(node.name), number(node.file), node.line, node.column, node.start_line],
            );
        }
        put(out, positions.len() as u64);
        put(out, packed.len() as u64);
        let width = width(packed.len());
        positions.iter().for_each(|position| out.extend_from_slice(&position.to_le_bytes()[..width]));
        out.extend_from_slice(packed);
        let mut last = Segment { address: parts.start, ..Segment::default() };
        let mut count = 0u64;
        packed.clear();
        segments(parts, |segment| {
            if count > 0 && (Segment { address: last.address, ..segment }) == last {
                return;
            }
            put(packed, segment.address - last.address);
            for (from, to) in
                [(last.node, segment.node), (last.file, segment.file), (last.line, segment.line)]
            {
                put_difference(packed, from, to);
            }
            put(packed, segment.column.into());
            count += 1;
            last = segment;
        });
        put(out, count);
        out.extend_from_slice(packed);
        let place = Place::Own(part, at, out.len() - at);
        self.ranges.insert(parts.start, (parts.end, place));
    }

    /// Uses the records of an earlier reader, beside those that are here.
    pub fn restore(&mut self, saved: Saved) {
        self.saved = Some(saved);
    }

    /// Remembers that no unit has an address.
    pub fn add_nothing(&mut self, address: u64) {
        self.nothing.insert(address);
    }

    /// Whether no unit has an address.
    pub fn is_nothing(&self, address: u64) -> bool {
        self.nothing.contains(&address) || self.saved.as_ref().is_some_and(|saved| saved.is_nothing(address))
    }

    /// Whether there is more than an earlier reader knew.
    pub fn has_news(&self) -> bool {
        !self.ranges.is_empty() || !self.nothing.is_empty()
    }

    /// Where the record of an address is, and where it ends.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(u64, u64, Place)> {
        if let Some((start, (end, place))) = self.ranges.range(..=address).next_back()
            && address < *end
        {
            return Some((*start, *end, *place));
        }
        let saved = self.saved.as_ref()?;
        let index = saved.find(address)?;
        let (start, end, _) = saved.record(index)?;
        Some((start, end, Place::Saved(index)))
    }

    /// Start, end and bytes of all records, sorted by start.
    pub fn all(&self) -> Vec<(u64, u64, &[u8])> {
        let own = self.ranges.iter().map(|(start, (end, place))| (*start, *end, self.data(*place)));
        let saved =
            self.saved.iter().flat_map(|saved| (0..saved.len()).filter_map(|index| saved.record(index)));
        let mut all: Vec<_> = own.chain(saved).collect();
        // Of two at one start, ours is the first and the one that is found.
        all.sort_by_key(|(start, ..)| *start);
        all.dedup_by_key(|(start, ..)| *start);
        all
    }

    /// All addresses in no unit, sorted.
    pub fn all_nothing(&self) -> Vec<u64> {
        let saved = self.saved.iter().flat_map(Saved::nothing);
        let mut all: Vec<u64> = self.nothing.iter().copied().chain(saved).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn data(&self, place: Place) -> &[u8] {
        let bytes = match place {
            Place::Own(part, at, length) => {
                self.bytes.get(part).and_then(|part| part.get(at..)?.get(..length))
            }
            Place::Saved(index) => {
                self.saved.as_ref().and_then(|saved| saved.record(index)).map(|(_, _, bytes)| bytes)
            }
        };
        bytes.unwrap_or_default()
    }

    /// Answers sorted addresses, which all are in one record: the functions at each, and the first address of the outermost one. Damaged bytes
    /// give fewer answers.
    pub fn answer(
        &self,
        (start, place): (u64, Place),
        addresses: &[u64],
        room: &mut Room,
        mut each: impl FnMut(&[Frame], Option<u64>),
    ) {
        let _ = unpack(self.data(place), start, addresses, room, &mut each);
    }

    pub fn heap_bytes(&self) -> usize {
        self.bytes.iter().map(Vec::capacity).sum::<usize>() + self.ranges.len() * 64 + self.nothing.len() * 16
    }
}

/// Memory for one record, used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Room {
    frames: Vec<Frame>,
}

/// The nodes of a record: most answers need few of many.
struct Nodes<'d> {
    positions: &'d [u8],
    /// Bytes of a position.
    width: usize,
    data: &'d [u8],
}

/// Bytes of the position of a node, if all nodes have so many.
fn width(bytes: usize) -> usize {
    if bytes <= usize::from(u16::MAX) { 2 } else { 4 }
}

impl Nodes<'_> {
    /// A node by its number. `None` if the record is damaged.
    fn get(&self, number: u32) -> Option<Numbers> {
        let at = (number as usize).checked_mul(self.width)?;
        let bytes = self.positions.get(at..at.checked_add(self.width)?)?;
        let mut at = bytes.iter().rev().fold(0, |at, byte| at << 8 | usize::from(*byte));
        let mut numbers = Numbers::default();
        for number in &mut numbers {
            *number = uleb(self.data, &mut at)? as u32;
        }
        Some(numbers)
    }
}

/// A node as it is packed: parent, name, file, line, column, line of the declaration.
type Numbers = [u32; 6];

fn unpack(
    data: &[u8],
    start: u64,
    addresses: &[u64],
    Room { frames: room }: &mut Room,
    each: &mut impl FnMut(&[Frame], Option<u64>),
) -> Option<()> {
    let mut at = 0;
    let function = match uleb(data, &mut at)? {
        0 => None,
        distance => Some(start.wrapping_sub(distance - 1)),
    };
    let count = usize::try_from(uleb(data, &mut at)?).ok()?;
    let bytes = usize::try_from(uleb(data, &mut at)?).ok()?;
    let width = width(bytes);
    let (positions, rest) = data.get(at..)?.split_at_checked(count.checked_mul(width)?)?;
    let nodes = Nodes { positions, width, data: rest.get(..bytes)? };
    at += positions.len() + bytes;
    let mut left = uleb(data, &mut at)?;
    let mut current = Segment { address: start, ..Segment::default() };
    // Where the next segment begins, once that was read.
    let mut next = None;
    for address in addresses {
        loop {
            let begin = match next {
                Some(begin) => begin,
                None if left == 0 => break,
                None => {
                    left -= 1;
                    let begin = current.address.checked_add(uleb(data, &mut at)?)?;
                    next = Some(begin);
                    begin
                }
            };
            if begin > *address {
                break;
            }
            next = None;
            current.address = begin;
            for number in [&mut current.node, &mut current.file, &mut current.line] {
                *number = add(*number, uleb(data, &mut at)?);
            }
            current.column = uleb(data, &mut at)? as u32;
        }
        frames(&nodes, &current, room);
        each(room, function);
    }
    Some(())
}

/// Joins calls and lines. Each segment goes up to the next one, the last to the end.
fn segments(parts: &Parts<'_>, mut each: impl FnMut(Segment)) {
    let (mut calls, mut lines) = (parts.calls, parts.lines);
    let mut at = parts.start;
    while at < parts.end {
        while let Some((_, rest)) = calls.split_first().filter(|(piece, _)| piece.end <= at) {
            calls = rest;
        }
        while let Some((_, rest)) = lines.split_first().filter(|(line, _)| line.end <= at) {
            lines = rest;
        }
        let mut end = parts.end;
        let mut segment = Segment { address: at, ..Segment::default() };
        match calls.first() {
            Some(piece) if piece.start <= at => {
                segment.node = piece.value;
                end = end.min(piece.end);
            }
            Some(piece) => end = end.min(piece.start),
            None => {}
        }
        match lines.first() {
            Some(line) if line.start <= at => {
                segment.file = number(line.file);
                segment.line = line.line;
                segment.column = line.column;
                end = end.min(line.end);
            }
            Some(line) => end = end.min(line.start),
            None => {}
        }
        each(segment);
        at = end;
    }
}

fn frames(nodes: &Nodes<'_>, segment: &Segment, frames: &mut Vec<Frame>) {
    let (mut file, mut line, mut column) = (segment.file, segment.line, segment.column);
    frames.clear();
    let mut number = segment.node;
    // Each call is in one with a smaller number.
    for _ in 0..=MAX_INLINED + 1 {
        let node = nodes.get(number).unwrap_or_default();
        let [parent, name, call_file, call_line, call_column, start_line] = node;
        if name | file | line | column | start_line != 0 {
            frames.push(Frame { name: text(name), file: text(file), line, column, start_line });
        }
        if parent >= number || frames.len() > MAX_INLINED {
            break;
        }
        (file, line, column) = (call_file, call_line, call_column);
        number = parent;
    }
}

fn number(text: Option<TextId>) -> u32 {
    text.map_or(0, |id| id.0.wrapping_add(1))
}

fn text(number: u32) -> Option<TextId> {
    number.checked_sub(1).map(TextId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_calls_come_back_at_each_address() {
        let name = |id| Some(TextId(id));
        let nodes = [
            Node { name: name(0), start_line: 5, ..Node::default() },
            Node { parent: 0, name: name(1), file: name(9), line: 7, column: 2, start_line: 1 },
        ];
        let line = |start, end, line| Line { start, end, file: name(8), line, column: 3 };
        let mut records = Records::default();
        records.add(&Parts {
            start: 100,
            end: 120,
            function: Some(90),
            nodes: &nodes,
            calls: &[Piece { start: 104, end: 108, value: 1 }],
            lines: &[line(95, 106, 10), line(106, 110, 11)],
        });
        let addresses = [100, 103, 104, 106, 108, 110, 119];
        let mut told = Vec::new();
        let (start, end, place) = records.find(100).unwrap();
        assert_eq!((start, end), (100, 120));
        records.answer((start, place), &addresses, &mut Room::default(), |frames, function| {
            assert_eq!(function, Some(90));
            told.push(
                frames.iter().map(|f| (f.name.unwrap().0, f.file.map(|id| id.0), f.line)).collect::<Vec<_>>(),
            );
        });
        let outer = |line| vec![(0, Some(8), line)];
        let inner = |line| vec![(1, Some(8), line), (0, Some(9), 7)];
        assert_eq!(
            told,
            [outer(10), outer(10), inner(10), inner(11), outer(11), vec![(0, None, 0)], vec![(0, None, 0)]]
        );
        assert_eq!((records.find(99), records.find(120)), (None, None));
    }

    #[test]
    fn each_of_few_and_of_many_nodes_comes_back() {
        for count in [1, 2, 9, 5000, 20_000] {
            let node = |number| Node { parent: 0, name: Some(TextId(number)), line: 7, ..Node::default() };
            let nodes: Vec<Node> = (0..count).map(node).collect();
            let calls = (0..count).map(|value| {
                let start = 100 + u64::from(value);
                Piece { start, end: start + 1, value }
            });
            let mut records = Records::default();
            records.add(&Parts {
                start: 100,
                end: 100 + u64::from(count),
                function: None,
                nodes: &nodes,
                calls: &calls.collect::<Vec<_>>(),
                lines: &[],
            });
            let addresses: Vec<u64> = (100..100 + u64::from(count)).collect();
            let mut expected = 0;
            let (start, _, place) = records.find(100).unwrap();
            records.answer((start, place), &addresses, &mut Room::default(), |frames, _| {
                assert_eq!(frames[0].name, Some(TextId(expected)));
                assert_eq!(frames.len(), 1 + usize::from(expected != 0));
                expected += 1;
            });
            assert_eq!(expected, count);
        }
    }
}
