//! The functions in which the value of a profile was spent.

use std::cmp::Reverse;
use std::collections::HashMap;

use profile::{Location, LocationId, MappingId, Profile, Sample};

use crate::figures::percent;
use crate::stack_lines::WOKEN_BY;

/// A function with its share of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HotFunction {
    /// Its name; empty for all functions of a file that have no name.
    pub name: String,
    /// The last component of the path of its file, or a special name as `[kernel]`; empty if there is none. Of a function that an interpreter
    /// runs, its source file, with the folder, and the line of its declaration: `views/cart.py:41`.
    pub file: String,
    /// What was spent in the function itself.
    pub own: u64,
    /// What was spent in it and in the functions that it called.
    pub total: u64,
    /// The whole path of the source, of a function that an interpreter runs: files of several folders may be shown under one name.
    pub(crate) source: String,
}

/// The functions of a profile in which most was spent, and what was spent in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hottest {
    /// What was spent in all functions, in the unit of the profile's default value.
    pub whole: u64,
    /// The functions, the hottest first.
    pub functions: Vec<HotFunction>,
}

impl Hottest {
    /// A value in percent of the whole.
    #[must_use]
    pub fn percent(&self, value: u64) -> f64 {
        percent(value, self.whole).unwrap_or(0.0)
    }
}

/// Which functions come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those in which most was spent while they were at work themselves.
    #[default]
    Own,
    /// Those in which most was spent, with the functions that they called.
    Total,
}

/// At most `limit` functions of a profile, those first in which most of its default value was spent while they were at work themselves.
/// Functions that only called others are left out. Counted as in [`ranked`].
#[must_use]
pub fn hottest(profile: &Profile, limit: usize) -> Hottest {
    hottest_of(ranked(profile, profile.default_value(), Order::Own), limit)
}

/// The first of these functions that were at work themselves.
pub(crate) fn hottest_of(mut all: Hottest, limit: usize) -> Hottest {
    all.functions.retain(|function| function.own > 0);
    sort(&mut all.functions, Order::Own);
    all.functions.truncate(limit);
    all
}

/// All functions of a profile in order, with what they have of the value number `value`. A recursive function counts once for each stack. Of a
/// wait with its waker, the functions that waited count.
#[must_use]
pub fn ranked(profile: &Profile, value: usize, order: Order) -> Hottest {
    let mut functions = Functions::of(profile);
    let mut whole = 0u64;
    let mut seen: Vec<usize> = Vec::new();
    for sample in &profile.samples {
        let spent = spent(sample, value);
        whole = whole.saturating_add(spent);
        seen.clear();
        seen.extend(functions.stack(sample));
        if let Some(leaf) = seen.first() {
            let leaf = &mut functions.all[*leaf].own;
            *leaf = leaf.saturating_add(spent);
        }
        seen.sort_unstable();
        seen.dedup();
        for number in &seen {
            let total = &mut functions.all[*number].total;
            *total = total.saturating_add(spent);
        }
    }
    let mut all = functions.all;
    all.retain(|function| function.total > 0);
    sort(&mut all, order);
    Hottest { whole, functions: all }
}

fn sort(functions: &mut [HotFunction], order: Order) {
    functions.sort_by(|a, b| {
        let key = |of: &HotFunction| match order {
            Order::Own => Reverse((of.own, of.total)),
            Order::Total => Reverse((of.total, of.own)),
        };
        let names = || (&a.name, &a.file, &a.source).cmp(&(&b.name, &b.file, &b.source));
        key(a).cmp(&key(b)).then_with(names)
    });
}

/// What a sample has of a value; 0 if that is negative or not there.
pub(crate) fn spent(sample: &Sample, value: usize) -> u64 {
    sample.values.get(value).copied().and_then(|spent| u64::try_from(spent).ok()).unwrap_or(0)
}

/// All functions of a profile, and which of them each location shows.
pub(crate) struct Functions {
    pub(crate) all: Vec<HotFunction>,
    /// By number of the location, innermost first.
    of_locations: Vec<Vec<usize>>,
    /// The locations that separate a wait from its waker.
    separators: Vec<LocationId>,
}

impl Functions {
    pub(crate) fn of(profile: &Profile) -> Self {
        // By name, file as it is shown, and the whole path of the source.
        let mut numbers: HashMap<(String, String, String), usize> = HashMap::new();
        let (mut of_locations, mut separators) = (Vec::new(), Vec::new());
        for (position, location) in (0u32..).zip(&profile.locations) {
            let file = file_of(profile, location);
            let source =
                if profile.is_interpreted(location) { place_of(profile, location) } else { String::new() };
            let names = names_at(profile, location);
            if names == [WOKEN_BY] && location.mapping.is_none() {
                separators.push(LocationId(position));
            }
            let mut number = |name: String| {
                let next = numbers.len();
                *numbers.entry((name, file.clone(), source.clone())).or_insert(next)
            };
            of_locations.push(names.into_iter().map(&mut number).collect());
        }
        let mut all = vec![HotFunction::default(); numbers.len()];
        for ((name, file, source), number) in numbers {
            all[number] = HotFunction { name, file, source, ..HotFunction::default() };
        }
        Self { all, of_locations, separators }
    }

    /// The functions of a stack, innermost first; of a wait with its waker, those that waited.
    pub(crate) fn stack<'a>(&'a self, sample: &'a Sample) -> impl Iterator<Item = usize> + 'a {
        let woken = sample.locations.iter().rposition(|id| self.separators.contains(id));
        let stack = sample.locations.get(woken.map_or(0, |woken| woken + 1)..).unwrap_or_default();
        stack.iter().flat_map(|id| self.at(*id))
    }

    fn at(&self, location: LocationId) -> impl Iterator<Item = usize> + '_ {
        self.of_locations.get(location.0 as usize).into_iter().flatten().copied()
    }
}

/// The names at a location, innermost first; one empty name if there is none.
fn names_at(profile: &Profile, location: &Location) -> Vec<String> {
    let name = |line: &profile::Line| {
        profile
            .functions
            .get(line.function.0 as usize)
            .map(|of| match of.start_in_name() {
                Some(start) => start.to_owned(),
                None if profile.is_interpreted(location) => of.name.clone(),
                None => profile.shown_name(location, line).into_owned(),
            })
            .unwrap_or_default()
    };
    if location.lines.is_empty() { vec![String::new()] } else { location.lines.iter().map(name).collect() }
}

fn file_of(profile: &Profile, location: &Location) -> String {
    let mapping = location.mapping.and_then(|MappingId(number)| profile.mappings.get(number as usize));
    match mapping.map(|mapping| mapping.filename.as_str()) {
        None if profile.is_interpreted(location) => source_of(profile, location),
        None => String::new(),
        Some("[kernel.kallsyms]") => "[kernel]".to_owned(),
        Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

/// The last two components of the path of the source file, and the line of the declaration.
fn source_of(profile: &Profile, location: &Location) -> String {
    let place = place_of(profile, location);
    let folder = place.rsplit_once('/').map_or(0, |(folder, _)| folder.rfind('/').map_or(0, |at| at + 1));
    place[folder..].to_owned()
}

/// The source file and the line of the declaration.
fn place_of(profile: &Profile, location: &Location) -> String {
    let function = location.lines.first().and_then(|line| profile.functions.get(line.function.0 as usize));
    function.map(profile::Function::place).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Line, Mapping, ValueType};

    use super::*;

    /// A profile of one value: stacks from the leaf on, each function as `name@file`, inlined functions separated by `<`.
    fn profile_of(stacks: &[(&str, i64)]) -> Profile {
        let time = ValueType::new("cpu", "nanoseconds");
        let mut builder = Builder::new(&[ValueType::new("samples", "count"), time.clone()], time, 1);
        for (stack, value) in stacks {
            let mut ids = Vec::new();
            for frame in stack.split(';') {
                let (names, file) = frame.split_once('@').unwrap_or((frame, ""));
                if file.is_empty() {
                    ids.push(builder.synthetic(names));
                    continue;
                }
                let mapping =
                    builder.mapping(Mapping { filename: format!("/lib/{file}"), ..Mapping::default() });
                let mut lines = Vec::new();
                for name in names.split('<').filter(|name| !name.is_empty()) {
                    let function =
                        builder.function(Function { name: name.to_owned(), ..Function::default() });
                    lines.push(Line { function, line: 0, column: 0 });
                }
                ids.push(builder.location(Some(mapping), ids.len() as u64, lines));
            }
            builder.add(Vec::new(), ids, &[1, *value]);
        }
        builder.finish(0, 0, Vec::new())
    }

    fn table(stacks: &[(&str, i64)], limit: usize) -> Vec<String> {
        let hottest = hottest(&profile_of(stacks), limit);
        let line = |of: &HotFunction| {
            format!("{:.1} {:.1} {}@{}", hottest.percent(of.own), hottest.percent(of.total), of.name, of.file)
        };
        hottest.functions.iter().map(line).collect()
    }

    #[test]
    fn own_and_total_shares_add_up_over_stacks() {
        let stacks = [("leaf@a;mid@a;main@a", 60), ("mid@a;main@a", 30), ("leaf@b;main@a", 10)];
        assert_eq!(table(&stacks, 9), ["60.0 60.0 leaf@a", "30.0 90.0 mid@a", "10.0 10.0 leaf@b"]);
        assert_eq!(table(&stacks, 1).len(), 1);
        assert_eq!(table(&[], 9), [""; 0]);
    }

    #[test]
    fn a_recursive_function_counts_once_and_an_inlined_one_by_itself() {
        let stacks = [("f@a;f@a;f@a;main@a", 3), ("inner<outer@a;main@a", 1)];
        assert_eq!(table(&stacks, 9), ["75.0 75.0 f@a", "25.0 25.0 inner@a"]);
    }

    #[test]
    fn functions_that_only_call_are_ranked_too() {
        let profile = profile_of(&[("leaf@a;mid@a;main@a", 60), ("leaf@b;main@a", 70)]);
        let names = |order| {
            let functions = ranked(&profile, 1, order).functions;
            functions.iter().map(|of| format!("{}@{} {}", of.name, of.file, of.total)).collect::<Vec<_>>()
        };
        assert_eq!(names(Order::Own), ["leaf@b 70", "leaf@a 60", "main@a 130", "mid@a 60"]);
        assert_eq!(names(Order::Total), ["main@a 130", "leaf@b 70", "leaf@a 60", "mid@a 60"]);
        assert_eq!(ranked(&profile, 0, Order::Own).whole, 2, "the first value is the number of samples");
        assert_eq!(ranked(&profile, 7, Order::Own), Hottest::default(), "there is no such value");
    }

    #[test]
    fn nameless_code_of_a_file_is_one_entry() {
        assert_eq!(
            table(&[("@x;main@a", 1), ("main@a;@x;main@a", 3)], 9),
            ["75.0 100.0 main@a", "25.0 100.0 @x"]
        );
    }

    #[test]
    fn a_function_that_is_called_by_its_start_is_not_told_its_file_twice() {
        assert_eq!(table(&[("x.so!fn_0x10@x.so;main@a", 1)], 9), ["100.0 100.0 fn_0x10@x.so"]);
    }

    #[test]
    fn functions_in_python_have_their_source_file_and_line() {
        let time = ValueType::new("cpu", "nanoseconds");
        let mut builder = Builder::new(std::slice::from_ref(&time), time.clone(), 1);
        for (value, file, start_line) in [
            (1, "/srv/shop/views/cart.py", 41),
            (2, "/srv/shop/views/cart.py", 9),
            (3, "/srv/depot/views/cart.py", 9),
            (4, "<string>", 1),
            (8, "/a.py", 0),
        ] {
            let name = "<lambda>".to_owned();
            let function = builder.function(Function {
                name,
                filename: file.to_owned(),
                start_line,
                ..Function::default()
            });
            let location =
                builder.location(None, 0, vec![Line { function, line: start_line + 1, column: 0 }]);
            builder.add(Vec::new(), vec![location], &[value]);
        }
        let hottest = hottest(&builder.finish(0, 0, Vec::new()), 9);
        let rows: Vec<_> = hottest.functions.iter().map(|of| (of.name.as_str(), of.file.as_str())).collect();
        let files = ["/a.py", "<string>:1", "views/cart.py:9", "views/cart.py:9", "views/cart.py:41"];
        assert_eq!(rows, files.map(|file| ("<lambda>", file)));
    }

    #[test]
    fn of_a_wait_with_its_waker_the_waiting_functions_count() {
        let stacks = [("main@w;wake@w;thread t;process p;[woken by];read@a;main@a", 5)];
        assert_eq!(table(&stacks, 9), ["100.0 100.0 read@a"]);
    }
}
