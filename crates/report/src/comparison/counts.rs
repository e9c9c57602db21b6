//! Samples by function, profile by profile.

use std::collections::BTreeMap;

use profile::Profile;

use super::question::{Against, ComparisonError, Part};
use super::significance::Side;
use crate::hottest::{Order, ranked, spent};

/// The samples of one side.
pub(super) struct Counts {
    /// By name and file.
    functions: BTreeMap<(String, String), FunctionCounts>,
    /// Samples of each profile.
    wholes: Vec<u64>,
    /// What the samples of each profile are measured against.
    exposures: Vec<f64>,
}

/// The samples of a function in each profile of its side.
#[derive(Default)]
pub(super) struct FunctionCounts(Vec<u64>);

impl FunctionCounts {
    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Counts {
    pub(super) fn whole(&self) -> u64 {
        self.wholes.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// A function of this side.
    pub(super) fn side(&self, function: &FunctionCounts) -> Side {
        let counts = function.0.iter().zip(&self.exposures);
        let squares = counts.map(|(count, exposure)| (*count as f64).powi(2) / exposure).sum();
        self.counted(Tally { count: function.sum(), squares })
    }

    /// Something else that was counted on this side.
    pub(super) fn counted(&self, of: Tally) -> Side {
        Side {
            count: of.count,
            squares: of.squares,
            whole: self.whole(),
            exposure: self.exposures.iter().sum(),
            profiles: self.wholes.len(),
        }
    }
}

/// What was counted of something on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Its samples.
    pub count: u64,
    /// The sum over the profiles of the square of its samples, divided by the [`exposure`] of the profile.
    pub squares: f64,
}

/// What the counts of a profile are measured against: its samples, its seconds, or 1 for a run.
#[must_use]
pub fn exposure(profile: &Profile, against: Against) -> f64 {
    match against {
        Against::Samples => {
            let value = counted_value(profile).unwrap_or_default();
            profile.samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(spent(sample, value))) as f64
        }
        Against::Time => profile.duration_ns as f64 / 1e9,
        Against::Runs => 1.0,
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
        counts.exposures.push(exposure(profile, against));
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
