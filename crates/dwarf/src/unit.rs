//! Records of the functions of one unit that have wanted addresses.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use gimli::DwarfFileType;
use hashbrown::HashMap;

use crate::calls::{Calls, Room};
use crate::code::Code;
use crate::descriptions::describe;
use crate::flatten::{self, Interval, Piece};
use crate::functions::{FunctionRange, Functions, FunctionsRoom};
use crate::limits::{MAX_RECORDS, Work};
use crate::line_program::{Row, Sequence};
use crate::lines::Lines;
use crate::names::{Context, EntryRef, Place};
use crate::records::{Line, Node, Parts, Records};
use crate::sections::Sections;
use crate::texts::{TextId, Texts};
use crate::units::Units;
use crate::view::{Root, Space, View};

/// What is wanted of a unit.
pub(crate) struct Hits<'h> {
    /// What is known of it.
    pub known: KnownUnit,
    pub code: Code<'h>,
    pub has_function: &'h dyn Fn(u64) -> bool,
    pub is_readable: fn(&str) -> bool,
    /// Sorted.
    pub addresses: &'h [u64],
}

/// What a look-up leaves of a unit for the next one.
#[derive(Debug, Default)]
pub(crate) struct KnownUnit {
    functions: Option<Functions>,
    /// Of its line program.
    sequences: Option<Vec<Sequence>>,
}

impl KnownUnit {
    /// About the address ranges in it.
    pub fn ranges(&self) -> usize {
        let functions = self.functions.as_ref().map_or(0, |functions| functions.ranges.len());
        functions + self.sequences.as_ref().map_or(0, Vec::len)
    }
}

/// Where records go.
pub(crate) struct UnitReader<'r> {
    pub records: &'r mut Records,
    pub texts: &'r mut Texts,
    pub work: &'r mut Work,
    pub scratch: &'r mut Scratch,
}

/// Memory that is used for one unit after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    functions: FunctionsRoom,
    /// Rows of a unit.
    rows: Vec<Row>,
    /// Rows of a range, with their paths.
    lines: Vec<Line>,
    /// A function in one range.
    calls: Calls,
    record: Record,
}

/// A range of addresses that gets a record.
struct Hit {
    start: u64,
    end: u64,
    function: Option<FunctionRange>,
}

impl UnitReader<'_> {
    /// Reads the split unit of a skeleton. `None` if the sections are not those of such a unit. Gives the addresses without a function.
    pub fn read_split<'s, 'a: 's>(
        &mut self,
        (main, supplementary): (Rc<Space<'a>>, Option<Rc<Space<'a>>>),
        skeleton: &Rc<View<'a>>,
        mut sections: Sections<'s>,
        hits: &mut Hits<'_>,
    ) -> Option<Vec<u64>> {
        // These are with the skeleton. Range lists are so only before DWARF 5.
        sections.addr = gimli::Section::reader(&main.dwarf.debug_addr).slice();
        sections.ranges = gimli::Section::reader(main.dwarf.ranges.debug_ranges()).slice();
        let units = Arc::new(Units::read(sections.info));
        let id = skeleton.root.split.map(|(_, id)| id)?;
        let space = Rc::new(Space::new(sections, units, DwarfFileType::Dwo));
        let mut numbers = 0..space.units.heads.len();
        let number = numbers.find(|number| {
            let head = &space.units.heads[*number];
            let own = |work: &mut Work| Root::read(&space, head, work).and_then(|root| root.id);
            !head.is_type_unit && head.dwo_id.or_else(|| own(self.work)) == Some(id)
        })?;
        let mut context: Context<'s> =
            Context::new(main, supplementary, Some(Rc::clone(&space)), hits.is_readable);
        context = context.for_addresses(hits.addresses.len());
        context.relocate(skeleton.root.low_pc, skeleton.root.addresses, skeleton.root.rnglists);
        let view = context.view(Place::Split, number, self.work)?;
        Some(self.read(&mut context, (Place::Split, &view), skeleton, hits))
    }

    /// Reads a unit. Its lines are in another view if it is split. Gives the addresses without a function.
    pub fn read<'s>(
        &mut self,
        context: &mut Context<'s>,
        (place, view): (Place, &View<'s>),
        skeleton: &View<'s>,
        hits: &mut Hits<'_>,
    ) -> Vec<u64> {
        let known = hits.known.functions.take();
        let mut read = |is_complete: bool| {
            Functions::read(view, &hits.code, is_complete, &mut self.scratch.functions, self.work)
        };
        let mut functions = known.unwrap_or_else(|| read(false));
        let is_missed = |address: &u64| functions.find(*address).is_none() && (hits.has_function)(*address);
        if !functions.is_complete && hits.addresses.iter().any(is_missed) {
            functions = read(true);
        }
        let (wanted, lost) = self.wanted(&functions, hits.addresses);
        let ranges: Vec<Range<u64>> = wanted.iter().map(|hit| hit.start..hit.end).collect();
        let lines = Lines::open(skeleton);
        let Scratch { rows, lines: of_range, calls: of_whole, record, .. } = &mut *self.scratch;
        rows.clear();
        if let Some(lines) = &lines {
            lines.rows(&ranges, &mut hits.known.sequences, rows, self.work);
        }
        let mut paths = Paths { lines, skeleton, known: HashMap::new(), last: None, path: Vec::new() };
        let mut room = Room::default();
        // A function in several ranges is read once.
        let mut of_parts: HashMap<u32, Calls> = HashMap::new();
        for hit in &wanted {
            let first = rows.partition_point(|row| row.end <= hit.start);
            let end = rows.partition_point(|row| row.start < hit.end).max(first);
            of_range.clear();
            of_range.extend(rows[first..end].iter().map(|row| Line {
                start: row.start,
                end: row.end,
                file: paths.enter(row.file, self.texts),
                line: row.line,
                column: row.column,
            }));
            record.clear();
            if let Some(function) = hit.function {
                let entry = view.head.start + function.entry as usize;
                let own = EntryRef { place, at: entry };
                let mut read = |calls: &mut Calls| calls.read(view, entry, own, &mut room, self.work);
                let calls = if function.is_part {
                    of_parts.entry(function.entry).or_insert_with(|| {
                        let mut calls = Calls::default();
                        read(&mut calls);
                        calls
                    })
                } else {
                    read(of_whole);
                    &*of_whole
                };
                record.fill((self.texts, self.work), context, calls, hit, &mut paths);
            }
            self.records.add(&Parts {
                start: hit.start,
                end: hit.end,
                function: hit.function.filter(|function| !function.is_part).map(|function| function.start),
                nodes: &record.nodes,
                calls: &record.pieces,
                lines: of_range,
            });
        }
        hits.known.functions = Some(functions);
        lost
    }

    /// The ranges to make records of, sorted, and the addresses in no function.
    fn wanted(&self, functions: &Functions, addresses: &[u64]) -> (Vec<Hit>, Vec<u64>) {
        let (mut wanted, mut lost): (Vec<Hit>, Vec<u64>) = (Vec::new(), Vec::new());
        // Once there are too many records, each has one address.
        let is_full = self.records.heap_bytes() > MAX_RECORDS;
        for address in addresses.iter().copied() {
            if wanted.last().is_some_and(|hit| address < hit.end) {
                continue;
            }
            let only = (address, address.saturating_add(1));
            let (function, piece) = functions.find(address).unzip();
            let (start, end) =
                piece.filter(|_| !is_full).map_or(only, |piece: &Piece| (piece.start, piece.end));
            if function.is_none() {
                lost.push(address);
            }
            wanted.push(Hit { start, end, function: function.copied() });
        }
        (wanted, lost)
    }
}

/// What a record is made of, in memory that is used for one after the other.
#[derive(Default)]
struct Record {
    nodes: Vec<Node>,
    pieces: Vec<Piece>,
    /// Where calls are in the range.
    intervals: Vec<Interval<(u32, u32)>>,
    /// Number of the node of each call.
    numbers: Vec<Option<u32>>,
    /// Calls that have no node yet, each inside of the next one.
    chain: Vec<u32>,
}

impl Record {
    fn clear(&mut self) {
        self.nodes.clear();
        self.pieces.clear();
        self.intervals.clear();
        self.numbers.clear();
        self.chain.clear();
    }

    /// A function and those of its calls that have code in a range, and where they have it.
    fn fill(
        &mut self,
        (texts, work): (&mut Texts, &mut Work),
        context: &mut Context<'_>,
        calls: &Calls,
        hit: &Hit,
        paths: &mut Paths<'_, '_>,
    ) {
        let Self { nodes, pieces, intervals, numbers, chain } = self;
        // Each range of a function goes through all calls of the function. Without work left, it has its function only.
        let is_paid = work.take(calls.intervals.len() + calls.calls.len());
        let (all, count) = if is_paid { (&*calls.intervals, calls.calls.len()) } else { (&[][..], 1) };
        let inside = all.iter().filter(|interval| interval.start < hit.end && hit.start < interval.end);
        intervals.extend(inside.map(|interval| Interval {
            start: interval.start.max(hit.start),
            end: interval.end.min(hit.end),
            ..*interval
        }));
        flatten::flatten_into(intervals, pieces);
        numbers.resize(count, None);
        let known = |numbers: &[Option<u32>], call: u32| numbers.get(call as usize).copied().flatten();
        for wanted in [0].into_iter().chain(pieces.iter().map(|piece| piece.value)) {
            // Outer ones come first.
            let mut next = wanted;
            while known(numbers, next).is_none() {
                chain.push(next);
                next = calls.calls.get(next as usize).map_or(0, |call| call.parent);
                if chain.last() == Some(&next) {
                    break;
                }
            }
            while let Some(number) = chain.pop() {
                let Some(call) = calls.calls.get(number as usize) else { continue };
                let described = call.origin.map(|origin| describe(context, origin, texts, work));
                let described = described.unwrap_or_default();
                let file = if number == 0 { None } else { paths.enter(call.file as u32, texts) };
                let parent = known(numbers, call.parent).unwrap_or(0);
                if let Some(place) = numbers.get_mut(number as usize) {
                    *place = Some(nodes.len() as u32);
                }
                nodes.push(Node {
                    parent,
                    name: described.name,
                    file,
                    line: call.line,
                    column: call.column,
                    start_line: described.line,
                });
            }
        }
        for piece in pieces {
            piece.value = known(numbers, piece.value).unwrap_or(0);
        }
    }
}

/// The paths of files of a line program, each entered once.
struct Paths<'p, 'a> {
    lines: Option<Lines<'a>>,
    skeleton: &'p View<'a>,
    known: HashMap<u32, Option<TextId>>,
    /// The one that was asked for last.
    last: Option<(u32, Option<TextId>)>,
    path: Vec<u8>,
}

impl Paths<'_, '_> {
    #[inline]
    fn enter(&mut self, file: u32, texts: &mut Texts) -> Option<TextId> {
        if let Some((last, text)) = self.last
            && last == file
        {
            return text;
        }
        let Self { lines, skeleton, known, path, .. } = self;
        let text = *known.entry(file).or_insert_with(|| {
            lines.as_ref()?.path(skeleton, file.into(), path)?;
            texts.enter(path)
        });
        self.last = Some((file, text));
        text
    }
}
