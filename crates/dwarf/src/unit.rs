//! Records of the functions of one unit that have wanted addresses.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use gimli::DwarfFileType;
use hashbrown::HashMap;

use crate::calls::{Calls, Room};
use crate::code::Code;
use crate::flatten::{self, Interval, Piece};
use crate::functions::{FunctionRange, Functions};
use crate::limits::{MAX_RECORDS, Work};
use crate::lines::Lines;
use crate::names::{Context, EntryRef, Place};
use crate::records::{Node, Parts, Records};
use crate::sections::Sections;
use crate::texts::{TextId, Texts};
use crate::units::Units;
use crate::view::{Root, Space, View};

/// What is wanted of a unit.
pub(crate) struct Hits<'h> {
    /// Its functions, if they are known.
    pub known: Option<Functions>,
    pub code: Code<'h>,
    pub has_function: &'h dyn Fn(u64) -> bool,
    /// Sorted.
    pub addresses: &'h [u64],
}

/// Where records go.
pub(crate) struct UnitReader<'r> {
    pub records: &'r mut Records,
    pub texts: &'r mut Texts,
    pub work: &'r mut Work,
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
        let mut context: Context<'s> = Context::new(main, supplementary, Some(Rc::clone(&space)));
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
        let known = hits.known.take();
        let mut functions = known.unwrap_or_else(|| Functions::read(view, &hits.code, false, self.work));
        let is_missed = |address: &u64| functions.find(*address).is_none() && (hits.has_function)(*address);
        if !functions.is_complete && hits.addresses.iter().any(is_missed) {
            functions = Functions::read(view, &hits.code, true, self.work);
        }
        let (wanted, lost) = self.wanted(&functions, hits.addresses);
        let ranges: Vec<Range<u64>> = wanted.iter().map(|hit| hit.start..hit.end).collect();
        let lines = Lines::open(skeleton);
        let rows = lines.as_ref().map(|lines| lines.rows(&ranges, self.work)).unwrap_or_default();
        let mut paths = Paths { lines, skeleton, known: HashMap::new(), path: Vec::new() };
        let mut room = Room::default();
        let mut calls: HashMap<u32, Calls> = HashMap::new();
        for hit in &wanted {
            let first = rows.partition_point(|row| row.end <= hit.start);
            let end = rows.partition_point(|row| row.start < hit.end).max(first);
            let rows = &rows[first..end];
            for row in rows {
                paths.enter(row.file, self.texts);
            }
            let (mut nodes, mut pieces) = (Vec::new(), Vec::new());
            if let Some(function) = hit.function {
                let entry = view.head.start + function.entry as usize;
                let own = EntryRef { place, at: entry };
                let calls = calls
                    .entry(function.entry)
                    .or_insert_with(|| Calls::read(view, entry, own, &mut room, self.work));
                (nodes, pieces) = self.nodes(context, calls, hit, &mut paths);
            }
            self.records.add(&Parts {
                start: hit.start,
                end: hit.end,
                function: hit.function.filter(|function| !function.is_part).map(|function| function.start),
                nodes: &nodes,
                calls: &pieces,
                rows,
                files: &paths.known,
            });
        }
        hits.known = Some(functions);
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

    /// A function and those of its calls that have code in a range, and where they have it.
    fn nodes(
        &mut self,
        context: &mut Context<'_>,
        calls: &Calls,
        hit: &Hit,
        paths: &mut Paths<'_, '_>,
    ) -> (Vec<Node>, Vec<Piece>) {
        let inside =
            calls.intervals.iter().filter(|interval| interval.start < hit.end && hit.start < interval.end);
        let clipped = inside.map(|interval| Interval {
            start: interval.start.max(hit.start),
            end: interval.end.min(hit.end),
            ..*interval
        });
        let mut intervals = Vec::with_capacity(calls.intervals.len());
        intervals.extend(clipped);
        let mut pieces = flatten::flatten(intervals);
        let mut nodes: Vec<Node> = Vec::with_capacity(calls.calls.len().min(2 * pieces.len() + 1));
        // Number of the node of each call.
        let mut numbers: Vec<Option<u32>> = vec![None; calls.calls.len()];
        let known = |numbers: &[Option<u32>], call: u32| numbers.get(call as usize).copied().flatten();
        let mut chain = Vec::new();
        for wanted in [0].into_iter().chain(pieces.iter().map(|piece| piece.value)) {
            // Outer ones come first.
            let mut next = wanted;
            while known(&numbers, next).is_none() {
                chain.push(next);
                next = calls.calls.get(next as usize).map_or(0, |call| call.parent);
                if chain.last() == Some(&next) {
                    break;
                }
            }
            while let Some(number) = chain.pop() {
                let Some(call) = calls.calls.get(number as usize) else { continue };
                let described = call.origin.map(|origin| context.describe(origin, self.texts, self.work));
                let described = described.unwrap_or_default();
                let file = if number == 0 { None } else { paths.enter(call.file as u32, self.texts) };
                let parent = known(&numbers, call.parent).unwrap_or(0);
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
        for piece in &mut pieces {
            piece.value = known(&numbers, piece.value).unwrap_or(0);
        }
        (nodes, pieces)
    }
}

/// The paths of files of a line program, each entered once.
struct Paths<'p, 'a> {
    lines: Option<Lines<'a>>,
    skeleton: &'p View<'a>,
    known: HashMap<u32, Option<TextId>>,
    path: Vec<u8>,
}

impl Paths<'_, '_> {
    fn enter(&mut self, file: u32, texts: &mut Texts) -> Option<TextId> {
        let Self { lines, skeleton, known, path } = self;
        *known.entry(file).or_insert_with(|| {
            lines.as_ref()?.path(skeleton, file.into(), path)?;
            texts.enter(path)
        })
    }
}
