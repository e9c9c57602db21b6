//! Rows for code without unwind information, from the code itself: exact or none.
//!
//! musl's libc and the startup code of compilers have no frame sections. From every proven function start ([`starts`])
//! all paths are followed. The distance of sp from its value at entry and the location of the saved rbp are tracked
//! ([`stack_state`]). A function gets no rows, and [`crate::Stats::refused_functions`] counts it, if an instruction, a path
//! or a return is not understood: at a return, sp and rbp must have their values from entry, and where paths or
//! functions join they must agree on the frame.
//!
//! Clearing rbp without saving it marks the outermost frame (psABI). Startup code and musl's `clone` do so.

mod function;
pub(crate) mod jump_table;
mod known;
mod progress;
mod stack_state;
mod starts;
mod uncovered;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashMap;
use hashbrown::HashSet;

use crate::abi::Rule;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::table::Stats;
use crate::x86_64;

use function::FunctionFacts;
use function::Walk;
use known::Known;
use starts::Evidence;
use uncovered::UncoveredCode;

/// More code than this without unwind information is not analysed.
const MAX_UNCOVERED: u64 = 64 << 20;
/// Smaller gaps are padding and startup code.
const MIN_GAP: u64 = 16;
/// Limit of followed instructions per byte of uncovered code, over all functions. Most bytes are reached from one start
/// only.
const EFFORT_PER_BYTE: u64 = 8;
/// Limit of followed instructions of a file: some seconds.
const MAX_EFFORT: u64 = 40 << 20;
/// Limit of rounds to find functions behind known ones. Each finds the callees of those of the last one.
const MAX_SEARCHES: usize = 16;

/// Limit of the code between a function's start and a label in it that may start a stack.
const MAX_BEFORE_LABEL: u64 = 1 << 10;
/// Limit of the times that functions are looked for behind those that were not understood before.
const MAX_FINDS: usize = 3;
/// Limit of rounds to find out which functions return.
const MAX_ROUNDS: usize = 16;

/// The results so far, while starts are processed.
struct Analysis<'a> {
    code: UncoveredCode<'a>,
    /// Finished functions: start of a range with one rule -> its end and the rule.
    runs: BTreeMap<u64, (u64, Rule)>,
    /// Start and end of runs, with the start of the function that they were followed from.
    claims: Vec<(u64, u64, u64)>,
    /// Addresses with which stacks start.
    start_frames: BTreeSet<u64>,
    /// Instructions left of the limit.
    effort: Cell<u64>,
    /// Half of the limit is kept for the rows.
    effort_for_rows: u64,
}

/// A function.
struct Function {
    start: u64,
    evidence: Evidence,
    /// The functions that it calls or jumps to.
    callees: Vec<u64>,
    is_understood: bool,
}

/// The functions that were found.
#[derive(Default)]
struct Found {
    functions: Vec<Function>,
    /// Their starts.
    done: HashSet<u64>,
    /// The start and the end of code that belongs to them.
    reached: BTreeMap<u64, u64>,
    /// Addresses that they take.
    taken: Vec<u64>,
}

/// Where code lies that is too much to be analysed; sorted, disjoint.
pub(crate) struct TooMuch(pub(crate) Vec<Range<u64>>);

/// Rows for the code that `covered` does not cover.
pub(crate) fn layer(image: &Image<'_>, covered: &Layer, rules: &mut RuleSet, stats: &mut Stats) -> Layer {
    let analysis = Analysis::of(image, covered, gaps(image, covered), stats);
    analysis.map(|analysis| analysis.into_layer(rules)).unwrap_or_default()
}

/// Code that `covered` does not cover, and the start of the function that it belongs to; sorted, disjoint. Left out is what several
/// functions share, and what does not follow the start without a gap: a function may jump to another one, of which nothing else is known.
///
/// # Errors
/// There is too much such code.
pub(crate) fn functions(image: &Image<'_>, covered: &Layer) -> Result<Vec<(Range<u64>, u64)>, TooMuch> {
    let gaps = gaps(image, covered);
    if len_of(&gaps) > MAX_UNCOVERED {
        return Err(TooMuch(gaps));
    }
    let analysis = Analysis::of(image, covered, gaps, &mut Stats::default());
    Ok(analysis.map(Analysis::into_functions).unwrap_or_default())
}

/// The code that `covered` does not cover.
fn gaps(image: &Image<'_>, covered: &Layer) -> Vec<Range<u64>> {
    let long = |gap: &Range<u64>| gap.end - gap.start >= MIN_GAP;
    image.code.iter().flat_map(|code| covered.gaps(code)).filter(long).collect()
}

fn len_of(gaps: &[Range<u64>]) -> u64 {
    gaps.iter().map(|gap| gap.end - gap.start).sum()
}

impl<'a> Analysis<'a> {
    /// `gaps`: the code that `covered` does not cover. `None`: there is no such code, or too much.
    fn of(
        image: &'a Image<'a>,
        covered: &'a Layer,
        gaps: Vec<Range<u64>>,
        stats: &mut Stats,
    ) -> Option<Self> {
        let uncovered = len_of(&gaps);
        if uncovered == 0 || uncovered > MAX_UNCOVERED {
            return None;
        }
        let effort = (uncovered * EFFORT_PER_BYTE).min(MAX_EFFORT);
        let mut analysis = Analysis {
            code: UncoveredCode::new(image, covered, gaps),
            runs: BTreeMap::new(),
            claims: Vec::new(),
            start_frames: BTreeSet::new(),
            effort: Cell::new(effort),
            effort_for_rows: effort / 2,
        };
        analysis.trampolines();
        analysis.functions(covered, stats);
        Some(analysis)
    }
}

impl Analysis<'_> {
    /// Signal trampolines are recognised by their bytes. A handler returns to the first byte, and return addresses are
    /// looked up one byte before.
    fn trampolines(&mut self) {
        let mut rest = Vec::new();
        for gap in std::mem::take(&mut self.code.gaps) {
            let code = self.code.image.bytes_at(gap.start).unwrap_or_default();
            let len = usize::try_from(gap.end - gap.start).unwrap_or(usize::MAX).min(code.len());
            let pattern = x86_64::SIGRETURN_CODE;
            let mut from = gap.start;
            for (at, _) in
                code[..len].windows(pattern.len()).enumerate().filter(|(_, window)| *window == pattern)
            {
                let start = (gap.start + at as u64).saturating_sub(1).max(from);
                let end = gap.start + (at + pattern.len()) as u64;
                self.runs.insert(start, (end, x86_64::SIGNAL_TRAMPOLINE));
                rest.push(from..start);
                from = end;
            }
            rest.push(from..gap.end);
        }
        self.code.gaps = rest;
    }

    /// Follows all functions several times: first to find them, then to find out which of them return, at last for their
    /// rows.
    fn functions(&mut self, covered: &Layer, stats: &mut Stats) {
        let mut known = Known::new(starts::find(self.code.image, covered, &self.code.gaps));
        let mut found = Found::default();
        for _ in 0..MAX_FINDS {
            self.find(&mut known, &mut found);
            let functions = &found.functions;
            self.find_returns(functions, known.with_known_return(), &mut known);
            let never = self.find_never_returning(functions, &mut known);
            self.find_returns(functions, never, &mut known);
            if !self.look_again(&mut known, &mut found) {
                break;
            }
        }
        self.start_frames(found.taken, &found.functions);
        for Function { start, evidence, .. } in found.functions {
            match self.limited(start, evidence, &known) {
                Some(FunctionFacts { runs, .. }) if self.fits(&runs) => {
                    self.claims.extend(runs.iter().map(|(from, end, _)| (*from, *end, start)));
                    runs.into_iter()
                        .for_each(|(start, end, rule)| _ = self.runs.entry(start).or_insert((end, rule)));
                    stats.analysed_functions = stats.analysed_functions.saturating_add(1);
                }
                _ => stats.refused_functions = stats.refused_functions.saturating_add(1),
            }
        }
    }

    /// Finds functions behind known ones, and the addresses with which stacks start.
    fn find(&self, known: &mut Known, found: &mut Found) {
        let mut searches = 0;
        // Starts with weak evidence come last: they must agree with the results of the strong ones.
        loop {
            let Some((start, evidence)) = known.starts.next() else {
                searches += 1;
                if searches > MAX_SEARCHES
                    || !self.search_between(&found.reached, &mut known.starts, &found.done)
                {
                    break;
                }
                continue;
            };
            if self.effort.get() < self.effort_for_rows
                || !self.code.contains(start)
                || !found.done.insert(start)
            {
                continue;
            }
            let facts = self.limited(start, evidence, known);
            let is_understood = facts.is_some();
            let callees = facts.map(|facts| self.follow(start, evidence, facts, known, found));
            let callees = callees.unwrap_or_default();
            found.functions.push(Function { start, evidence, callees, is_understood });
        }
    }

    /// Enters what a function leads to. Returns the functions that it calls or jumps to.
    fn follow(
        &self,
        start: u64,
        evidence: Evidence,
        facts: FunctionFacts,
        known: &mut Known,
        found: &mut Found,
    ) -> Vec<u64> {
        known.learn_return(start, facts.returns);
        let image = self.code.image;
        for callee in &facts.callees {
            // The code may be no function at all, and its calls none.
            if evidence == Evidence::Strong || starts::is_plausible(image, *callee) {
                known.starts.add(*callee, Evidence::Strong);
            }
        }
        facts.addresses_taken.iter().for_each(|address| known.starts.add_if_plausible(image, *address));
        if evidence == Evidence::Strong {
            found.taken.extend(facts.addresses_taken);
        } else {
            known.add_likely_start(start);
        }
        found.reached.extend(facts.runs.into_iter().map(|(start, end, _)| (start, end)));
        facts.callees
    }

    /// Follows the functions again that were not understood: now it is known which of their calls return. True: one of
    /// them is understood now, and may lead to others.
    fn look_again(&self, known: &mut Known, found: &mut Found) -> bool {
        let mut is_new = false;
        for index in 0..found.functions.len() {
            let Function { start, evidence, is_understood, .. } = found.functions[index];
            if is_understood || self.effort.get() < self.effort_for_rows {
                continue;
            }
            if let Some(facts) = self.limited(start, evidence, known) {
                let callees = self.follow(start, evidence, facts, known, found);
                let function = &mut found.functions[index];
                (function.callees, function.is_understood) = (callees, true);
                is_new = true;
            }
        }
        is_new
    }

    /// Finds out which functions return, in rounds, because this depends on the functions that they call and jump to.
    /// `news`: the functions of which that is new.
    fn find_returns(&self, functions: &[Function], mut news: HashSet<u64>, known: &mut Known) {
        for _ in 0..MAX_ROUNDS {
            if news.is_empty() || self.effort.get() < self.effort_for_rows {
                break;
            }
            let mut learnt = HashSet::new();
            for &Function { start, evidence, ref callees, .. } in functions {
                if known.returns(start) == Some(false) || !callees.iter().any(|callee| news.contains(callee))
                {
                    continue;
                }
                let returns = self.limited(start, evidence, known).and_then(|facts| facts.returns);
                if known.learn_return(start, returns) {
                    learnt.insert(start);
                }
            }
            news = learnt;
        }
    }

    /// Functions that never return because they end in each other. All of which it is not known are assumed never to
    /// return, and each that may then return nevertheless is taken out, until the rest holds: the first of them to return
    /// would need another that has returned before.
    fn find_never_returning(&self, functions: &[Function], known: &mut Known) -> HashSet<u64> {
        let unknown = functions.iter().filter(|function| known.returns(function.start).is_none());
        let mut assumed: HashMap<u64, Evidence> =
            unknown.map(|function| (function.start, function.evidence)).collect();
        for _ in 0..MAX_ROUNDS {
            if self.effort.get() < self.effort_for_rows {
                break;
            }
            known.assume_no_return(assumed.keys().copied().collect());
            let before = assumed.len();
            assumed.retain(|start, evidence| {
                let facts = self.limited(*start, *evidence, known);
                facts.is_some_and(|facts| facts.returns == Some(false))
            });
            if assumed.len() == before {
                return known.enter_assumed();
            }
        }
        known.assume_no_return(HashSet::new());
        HashSet::new()
    }

    /// Of `addresses`, those to which no call returns: a jump is before them. As return addresses they start a stack, as in
    /// Boost.Context: see [`crate::start_frames`].
    fn start_frames(&mut self, addresses: Vec<u64>, functions: &[Function]) {
        let mut starts: Vec<u64> = functions.iter().map(|function| function.start).collect();
        starts.sort_unstable();
        for address in addresses.into_iter().filter(|address| self.code.contains(*address)) {
            let before =
                starts.partition_point(|start| *start < address).checked_sub(1).map(|index| starts[index]);
            let near =
                before.filter(|before| address - before <= MAX_BEFORE_LABEL && self.code.contains(*before));
            if near.is_some_and(|before| starts::is_behind_jump(self.code.image, before, address)) {
                self.start_frames.insert(address);
            }
        }
    }

    /// Adds the code between known functions as possible starts of others. False: there is none that is new.
    fn search_between(
        &self,
        reached: &BTreeMap<u64, u64>,
        starts: &mut starts::Starts,
        done: &HashSet<u64>,
    ) -> bool {
        let mut found = false;
        let mut look_at = |hole: Range<u64>| {
            let start = starts::after_functions(self.code.image, &hole).filter(|start| !done.contains(start));
            if let Some(start) = start {
                starts.add(start, Evidence::Shape);
                found = true;
            }
        };
        for gap in &self.code.gaps {
            let mut at = gap.start;
            for (&start, &end) in reached.range(gap.clone()) {
                if at < start {
                    look_at(at..start);
                }
                at = at.max(end);
            }
            if at < gap.end {
                look_at(at..gap.end);
            }
        }
        found
    }

    /// Follows a function within the limit of instructions.
    fn limited(&self, start: u64, evidence: Evidence, known: &Known) -> Option<FunctionFacts> {
        let walk = Walk { code: &self.code, known, start, evidence };
        let mut spent = 0;
        let facts = (self.effort.get() > 0)
            .then(|| walk.run(false, &mut spent).or_else(|| walk.run(true, &mut spent)))
            .flatten();
        self.effort.set(self.effort.get().saturating_sub(spent));
        facts
    }

    /// Whether all code shared with other functions has the same rules. If not, one of the functions is wrong, and the
    /// rules of both are dropped.
    fn fits(&mut self, runs: &[(u64, u64, Rule)]) -> bool {
        let mut disputed = Vec::new();
        for &(start, end, rule) in runs {
            let before =
                self.runs.range(..start).next_back().filter(|(_, (other_end, _))| *other_end > start);
            let overlapping = before.into_iter().chain(self.runs.range(start..end));
            disputed.extend(overlapping.filter(|(_, (_, other))| *other != rule).map(|(start, _)| *start));
        }
        disputed.iter().for_each(|start| _ = self.runs.remove(start));
        disputed.is_empty()
    }

    fn into_layer(self, rules: &mut RuleSet) -> Layer {
        let mut start_frames = Layer::default();
        for address in self.start_frames {
            start_frames.begin(address - 1);
            start_frames.row(address - 1, rules.intern(Rule::ROOT));
            start_frames.end_before_code(address);
        }
        let mut layer = Layer::default();
        let mut end = 0;
        for (start, (run_end, rule)) in self.runs {
            let start = start.max(end);
            if start < run_end {
                layer.begin(start);
                layer.row(start, rules.intern(rule));
                layer.end_before_code(run_end);
                end = run_end;
            }
        }
        start_frames.fill_from(layer);
        start_frames
    }

    fn into_functions(self) -> Vec<(Range<u64>, u64)> {
        let Self { runs, claims, .. } = self;
        // Rules over which functions disagree were dropped: one of the functions is wrong.
        let is_kept = |(from, end, _): &(u64, u64, u64)| runs.get(from).is_some_and(|(kept, _)| kept == end);
        let mut borders: Vec<(u64, bool, u64)> = claims
            .iter()
            .filter(|claim| is_kept(claim))
            .flat_map(|(from, end, start)| [(*from, true, *start), (*end, false, *start)])
            .collect();
        borders.sort_unstable();
        let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
        let mut functions: Vec<(Range<u64>, u64)> = Vec::new();
        let mut at = 0;
        for (address, begins, start) in borders {
            if let (1, Some((owner, _))) = (owners.len(), owners.first_key_value())
                && at < address
            {
                let goes_on = |(range, start): &(Range<u64>, u64)| range.end == at && start == owner;
                if at == *owner || functions.last().is_some_and(goes_on) {
                    functions.push((at..address, *owner));
                }
            }
            at = address;
            let claims = owners.entry(start).or_default();
            *claims = if begins { *claims + 1 } else { claims.saturating_sub(1) };
            if *claims == 0 {
                owners.remove(&start);
            }
        }
        functions
    }
}
