//! Samples by function, profile by profile.

use std::collections::BTreeMap;

use profile::Profile;

use super::question::{Against, ComparisonError, Part};
use crate::hottest::{Order, ranked};

/// The samples of one side.
pub(super) struct Counts {
    /// By name and file.
    functions: BTreeMap<(String, String), FunctionCounts>,
    /// Samples of each profile.
    pub(super) wholes: Vec<u64>,
    /// What the samples of each profile are measured against besides `wholes`: seconds, or 1 for a run.
    exposures: Vec<f64>,
}

/// The samples of a function in each profile of its side.
#[derive(Default)]
pub(super) struct FunctionCounts(pub(super) Vec<u64>);

impl FunctionCounts {
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Counts {
    pub(super) fn whole(&self) -> u64 {
        self.wholes.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(super) fn exposure(&self) -> f64 {
        self.exposures.iter().sum()
    }

    /// The functions.
    pub(super) fn functions(&self) -> impl Iterator<Item = &FunctionCounts> {
        self.functions.values()
    }
}

/// The number of the value that counts the samples of a profile.
#[must_use]
pub fn counted_value(profile: &Profile) -> Option<usize> {
    profile.sample_types.iter().position(|of| of.unit == "count")
}

/// The samples of a side.
pub(super) fn counts(
    profiles: &[(String, Profile)],
    against: Against,
    part: Part,
) -> Result<Counts, ComparisonError> {
    let mut counts = Counts { functions: BTreeMap::new(), wholes: Vec::new(), exposures: Vec::new() };
    for (number, (name, profile)) in profiles.iter().enumerate() {
        let Some(value) = counted_value(profile) else {
            let found: Vec<_> =
                profile.sample_types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect();
            return Err(ComparisonError::NoCount { name: name.clone(), found: found.join(", ") });
        };
        if against == Against::Time && profile.duration_ns <= 0 {
            return Err(ComparisonError::NoDuration { name: name.clone() });
        }
        let ranked = ranked(profile, value, Order::Own);
        if ranked.whole == 0 {
            return Err(ComparisonError::Empty { name: name.clone() });
        }
        for function in ranked.functions {
            let count = match part {
                Part::Own => function.own,
                Part::Total => function.total,
            };
            if count == 0 {
                continue;
            }
            let of = counts.functions.entry((function.name, function.file)).or_default();
            of.0.resize(profiles.len(), 0);
            of.0[number] = count;
        }
        counts.wholes.push(ranked.whole);
        counts.exposures.push(match against {
            Against::Samples => ranked.whole as f64,
            Against::Time => profile.duration_ns as f64 / 1e9,
            Against::Runs => 1.0,
        });
    }
    Ok(counts)
}

/// Each function of two sides, with its counts on both.
pub(super) fn paired<'a>(
    before: &'a Counts,
    after: &'a Counts,
) -> impl Iterator<Item = ((&'a str, &'a str), &'a FunctionCounts, &'a FunctionCounts)> {
    static NONE: FunctionCounts = FunctionCounts(Vec::new());
    let mut all: BTreeMap<(&str, &str), [&FunctionCounts; 2]> = BTreeMap::new();
    for (side, counts) in [before, after].into_iter().enumerate() {
        for ((name, file), of) in &counts.functions {
            all.entry((name.as_str(), file.as_str())).or_insert([&NONE; 2])[side] = of;
        }
    }
    all.into_iter().map(|(function, [before, after])| (function, before, after))
}
