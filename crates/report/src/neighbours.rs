//! Who calls a function, and whom it calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use profile::Profile;

use crate::hottest::{Functions, HotFunction, spent};

/// A function with its direct callers and callees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbours {
    /// The function, with what it has of the whole profile.
    pub function: HotFunction,
    /// Its callers, those first through which it has most. `total` is what it has when they call it.
    pub callers: Vec<HotFunction>,
    /// The functions that it calls, likewise.
    pub callees: Vec<HotFunction>,
}

/// The functions with this name, or, if there is none, those whose name contains it, with their callers and callees: those first that have most of
/// the value number `value`. What a stack has counts once for a caller or callee, also if calls of it recur.
#[must_use]
pub fn neighbours(profile: &Profile, value: usize, name: &str) -> Vec<Neighbours> {
    let functions = Functions::of(profile);
    let numbers = |is_meant: &dyn Fn(&str) -> bool| -> BTreeSet<usize> {
        let named = functions.all.iter().enumerate().filter(|(_, function)| is_meant(&function.name));
        named.map(|(number, _)| number).collect()
    };
    let mut meant = numbers(&|known| known == name);
    if meant.is_empty() && !name.is_empty() {
        meant = numbers(&|known| known.contains(name));
    }
    let mut found: BTreeMap<usize, Sums> = meant.iter().map(|number| (*number, Sums::default())).collect();
    for sample in &profile.samples {
        let spent = spent(sample, value);
        let stack: Vec<usize> = functions.stack(sample).collect();
        let calls: BTreeSet<(usize, usize)> = stack.windows(2).map(|pair| (pair[1], pair[0])).collect();
        for (caller, callee) in calls {
            if let Some(sums) = found.get_mut(&callee) {
                add(sums.callers.entry(caller).or_default(), spent);
            }
            if let Some(sums) = found.get_mut(&caller) {
                add(sums.callees.entry(callee).or_default(), spent);
            }
        }
        if let Some(sums) = stack.first().and_then(|leaf| found.get_mut(leaf)) {
            add(&mut sums.own, spent);
        }
        for number in stack.into_iter().collect::<BTreeSet<_>>() {
            if let Some(sums) = found.get_mut(&number) {
                add(&mut sums.total, spent);
            }
        }
    }
    let of = |number: usize, own, total| HotFunction { own, total, ..functions.all[number].clone() };
    let listed = |sums: BTreeMap<usize, u64>| {
        let mut list: Vec<_> = sums.into_iter().map(|(number, total)| of(number, 0, total)).collect();
        list.retain(|function| function.total > 0);
        list.sort_by_key(|function| Reverse(function.total));
        list
    };
    let mut all: Vec<_> = found
        .into_iter()
        .map(|(number, sums)| Neighbours {
            function: of(number, sums.own, sums.total),
            callers: listed(sums.callers),
            callees: listed(sums.callees),
        })
        .collect();
    all.retain(|neighbours| neighbours.function.total > 0);
    all.sort_by_key(|neighbours| Reverse(neighbours.function.total));
    all
}

#[derive(Default)]
struct Sums {
    own: u64,
    total: u64,
    callers: BTreeMap<usize, u64>,
    callees: BTreeMap<usize, u64>,
}

fn add(sum: &mut u64, spent: u64) {
    *sum = sum.saturating_add(spent);
}

#[cfg(test)]
mod tests {
    use profile::{Builder, ValueType};

    use super::*;

    /// A profile of stacks from the leaf on.
    fn profile_of(stacks: &[(&str, i64)]) -> Profile {
        let time = ValueType::new("cpu", "nanoseconds");
        let mut builder = Builder::new(std::slice::from_ref(&time), time.clone(), 1);
        for (stack, value) in stacks {
            let ids = stack.split(';').map(|name| builder.synthetic(name)).collect();
            builder.add(Vec::new(), ids, &[*value]);
        }
        builder.finish(0, 0, Vec::new())
    }

    fn told(profile: &Profile, name: &str) -> Vec<String> {
        let list = |functions: &[HotFunction]| {
            let all: Vec<_> = functions.iter().map(|of| format!("{} {}", of.name, of.total)).collect();
            all.join(", ")
        };
        let line = |of: Neighbours| {
            let HotFunction { name, own, total, .. } = &of.function;
            format!("{} > {name} {own} {total} > {}", list(&of.callers), list(&of.callees))
        };
        neighbours(profile, 0, name).into_iter().map(line).collect()
    }

    #[test]
    fn callers_and_callees_have_what_passes_between_them() {
        let profile =
            profile_of(&[("read;load;main", 5), ("load;main", 2), ("read;poll;main", 9), ("main", 1)]);
        assert_eq!(told(&profile, "read"), ["poll 9, load 5 > read 14 14 > "]);
        assert_eq!(told(&profile, "load"), ["main 7 > load 2 7 > read 5"]);
        assert_eq!(told(&profile, "main"), [" > main 1 17 > poll 9, load 7"]);
    }

    #[test]
    fn recursion_counts_once_for_a_stack() {
        let profile = profile_of(&[("f;f;f;main", 3), ("g;f;g;f;main", 2)]);
        assert_eq!(told(&profile, "f"), ["main 5, f 3, g 2 > f 3 5 > f 3, g 2"]);
    }

    #[test]
    fn a_part_of_a_name_finds_all_if_nothing_has_that_name() {
        let profile = profile_of(&[("read_file;main", 1), ("read_line;main", 2)]);
        assert_eq!(told(&profile, "read_").len(), 2);
        assert_eq!(told(&profile, "read_file").len(), 1);
        assert!(told(&profile, "write").is_empty() && told(&profile, "").is_empty());
    }
}
