//! The functions that one call runs: the called function, and the functions that its jumps lead to.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::calls::{Way, stub_leads, ways_out};
use super::code::{Code, Slot};

/// Functions that are followed from one call. More can be reached only where jumps lead through much of a library.
const MAX_FUNCTIONS: usize = 1000;

/// What a call leads to.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    /// The file and the extent of each function.
    functions: HashSet<(usize, Range<u64>)>,
    /// Stubs on the way, by their file.
    stubs: HashSet<usize>,
    /// A jump leads to an address that only the running program knows.
    pub(super) leads_anywhere: bool,
    /// A function on the way has no extent, or is of a file that was not read.
    pub(super) leads_to_unknown: bool,
    /// An imported function is on the way, which the loader may bind at its first call.
    pub(super) binds: bool,
}

impl Reach {
    /// Whether an address of a file is reached.
    pub(super) fn contains(&self, file: usize, code: &Code, address: u64) -> bool {
        if code.is_stub(address) {
            return self.stubs.contains(&file);
        }
        code.extent(address).is_some_and(|extent| self.functions.contains(&(file, extent)))
    }
}

/// All files of a capture.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) codes: Vec<Code>,
    ways: HashMap<(usize, Range<u64>), Vec<Way>>,
}

impl Files {
    pub(super) fn new(codes: Vec<Code>) -> Self {
        Self { codes, ways: HashMap::new() }
    }

    /// Where a call or a jump of a file leads.
    pub(super) fn reach(&mut self, file: usize, way: Way) -> Reach {
        let mut reach = Reach::default();
        let mut due = VecDeque::from([(file, way)]);
        let mut seen = HashSet::new();
        while let Some((file, way)) = due.pop_front() {
            if !seen.insert((file, way)) {
                continue;
            }
            if reach.functions.len() >= MAX_FUNCTIONS {
                reach.leads_to_unknown = true;
                break;
            }
            match way {
                Way::Anywhere => reach.leads_anywhere = true,
                Way::BySlot(slot) => self.by_slot(file, slot, &mut reach, &mut due),
                Way::To(to) => self.to(file, to, &mut reach, &mut due),
            }
        }
        reach
    }

    fn by_slot(&self, file: usize, slot: u64, reach: &mut Reach, due: &mut VecDeque<(usize, Way)>) {
        match self.codes.get(file).and_then(|code| code.slots.get(&slot)) {
            Some(Slot::Local(to)) => due.push_back((file, Way::To(*to))),
            Some(Slot::Import(name)) => {
                reach.binds = true;
                let mut is_known = false;
                for (other, code) in self.codes.iter().enumerate() {
                    for export in code.exports.get(name).into_iter().flatten() {
                        is_known = true;
                        reach.leads_anywhere |= export.chooses;
                        due.push_back((other, Way::To(export.address)));
                    }
                }
                reach.leads_to_unknown |= !is_known;
            }
            Some(Slot::Chosen) | None => reach.leads_anywhere = true,
        }
    }

    fn to(&mut self, file: usize, to: u64, reach: &mut Reach, due: &mut VecDeque<(usize, Way)>) {
        let Some(code) = self.codes.get(file) else { return };
        if code.is_stub(to) {
            reach.stubs.insert(file);
            due.push_back((file, stub_leads(code, to)));
            return;
        }
        let Some(extent) = code.extent(to) else {
            reach.leads_to_unknown = true;
            return;
        };
        let key = (file, extent);
        let ways = self.ways.entry(key.clone()).or_insert_with(|| ways_out(code, &key.1));
        due.extend(ways.iter().map(|way| (file, *way)));
        reach.functions.insert(key);
    }
}
