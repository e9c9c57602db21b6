//! Two sides of profiles compared function by function: what changed beyond chance, and how large a change could have been seen.
//!
//! A sample is a count: the number of samples of a function scatters as Poisson's distribution tells. So each change has an interval, and among many
//! functions only those are significant that Benjamini and Hochberg's procedure keeps at a rate of false discoveries of 1 %.
//! Values that are no counts, as nanoseconds, are shown but never judged by.

mod counts;
mod question;
mod significance;

use std::cmp::Reverse;

use profile::Profile;

pub use self::counts::counted_value;
use self::counts::{Counts, FunctionCounts, counts};
pub use self::question::{Against, ComparisonError, Part};
use self::significance::{Side, Verdict};

/// Fewer samples on both sides together cannot show a change among many.
const LEAST: u64 = 10;

/// What became of a function.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Its name; empty for all functions of a file that have no name.
    pub name: String,
    /// The file that it is in, as in [`HotFunction`](crate::HotFunction).
    pub file: String,
    /// Its samples before.
    pub before: u64,
    /// Its samples after.
    pub after: u64,
    /// What it had before and after, in percent of all samples of the side.
    pub shares: (f64, f64),
    /// After divided by before, less 1, in percent; infinite for a function that is new.
    pub percent: f64,
    /// The interval of `percent` that contains the true change in 95 of 100 comparisons.
    pub interval: (f64, f64),
    /// How likely a difference of this size is if nothing changed.
    pub p_value: f64,
    /// Whether it is a discovery.
    pub is_significant: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Samples before and after.
    pub samples: (u64, u64),
    /// All functions of both sides: discoveries first, each part by the size of the change in samples.
    pub functions: Vec<Change>,
    /// The scatter between runs, as a multiple of what counts alone would scatter; only with several profiles on both sides. 1 if they
    /// scatter no more than that.
    pub dispersion: Option<f64>,
}

impl Comparison {
    /// The discoveries.
    pub fn discoveries(&self) -> impl Iterator<Item = &Change> {
        self.functions.iter().filter(|change| change.is_significant)
    }

    /// The smallest change, in percent, that would be found in 80 of 100 comparisons in a function with `share` percent of the samples.
    /// None: the function would have less than one sample.
    #[must_use]
    pub fn smallest_visible(&self, share: f64) -> Option<f64> {
        let smaller = self.samples.0.min(self.samples.1) as f64 * share / 100.0;
        (smaller >= 1.0).then(|| {
            significance::smallest_visible(smaller, self.functions.len(), self.dispersion.unwrap_or(1.0))
        })
    }

    /// The samples IN a function that each side needs, so that a change of `percent` is found in 80 of 100 comparisons.
    #[must_use]
    pub fn samples_needed(&self, percent: f64) -> u64 {
        significance::samples_needed(percent, self.functions.len(), self.dispersion.unwrap_or(1.0))
    }
}

/// Compares two sides, each of one or several profiles with their names. With several profiles on both sides, the scatter between them is
/// measured and widens all intervals.
///
/// # Errors
/// [`ComparisonError`]: a profile cannot be compared.
pub fn compare(
    before: &[(String, Profile)],
    after: &[(String, Profile)],
    against: Against,
    part: Part,
) -> Result<Comparison, ComparisonError> {
    let before = counts(before, against, part)?;
    let after = counts(after, against, part)?;
    let dispersion = significance::dispersion([&before, &after]);
    let mut functions: Vec<Change> = counts::paired(&before, &after)
        .map(|(function, of_before, of_after)| {
            let sides = (side(&before, of_before), side(&after, of_after));
            change(function, sides, against, dispersion)
        })
        .collect();
    mark_discoveries(functions.iter_mut());
    functions.sort_by(|a, b| {
        let moved = |change: &Change| (change.shares.1 - change.shares.0).abs();
        let key = |change: &Change| Reverse(change.is_significant);
        key(a)
            .cmp(&key(b))
            .then_with(|| moved(b).total_cmp(&moved(a)))
            .then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file)))
    });
    let samples = (before.whole(), after.whole());
    Ok(Comparison { samples, functions, dispersion: dispersion.map(|of| of.factor) })
}

/// Judges counts that are not those of functions, as those of the frames of a graph.
#[derive(Debug)]
pub struct Judge {
    against: Against,
    sides: [(u64, f64); 2],
    dispersion: Option<significance::Dispersion>,
}

impl Judge {
    /// For two sides, as in [`compare`]. The scatter is measured by functions with what they called.
    ///
    /// # Errors
    /// [`ComparisonError`]: a profile cannot be compared.
    pub fn new(
        before: &[(String, Profile)],
        after: &[(String, Profile)],
        against: Against,
    ) -> Result<Self, ComparisonError> {
        let (before, after) = (counts(before, against, Part::Total)?, counts(after, against, Part::Total)?);
        let dispersion = significance::dispersion([&before, &after]);
        let sides = [&before, &after].map(|side| (side.whole(), side.exposure()));
        Ok(Self { against, sides, dispersion })
    }

    /// Judges samples before and after, all together: among many, some differ by chance. Pairs of less than ten samples are never
    /// discoveries, and cost the others nothing: a graph has thousands of them.
    #[must_use]
    pub fn judge(&self, pairs: &[(u64, u64)]) -> Vec<Change> {
        let [before, after] =
            self.sides.map(|(whole, exposure)| move |count| Side { count, whole, exposure });
        let mut changes: Vec<Change> = pairs
            .iter()
            .map(|(a, b)| change(("", ""), (before(*a), after(*b)), self.against, self.dispersion))
            .collect();
        mark_discoveries(changes.iter_mut().filter(|change| change.before + change.after >= LEAST));
        changes
    }
}

fn mark_discoveries<'a>(changes: impl Iterator<Item = &'a mut Change>) {
    let mut changes: Vec<&mut Change> = changes.collect();
    let p_values: Vec<f64> = changes.iter().map(|change| change.p_value).collect();
    for (change, is_discovery) in changes.iter_mut().zip(significance::discoveries(&p_values)) {
        change.is_significant = is_discovery;
    }
}

fn side(counts: &Counts, of: &FunctionCounts) -> Side {
    Side { count: of.sum(), whole: counts.whole(), exposure: counts.exposure() }
}

fn change(
    (name, file): (&str, &str),
    (a, b): (Side, Side),
    against: Against,
    dispersion: Option<significance::Dispersion>,
) -> Change {
    let Verdict { percent, interval, p_value } = significance::judge(a, b, against, dispersion);
    let share = |side: Side| 100.0 * side.count as f64 / (side.whole.max(1)) as f64;
    Change {
        name: name.to_owned(),
        file: file.to_owned(),
        before: a.count,
        after: b.count,
        shares: (share(a), share(b)),
        percent,
        interval,
        p_value,
        is_significant: false,
    }
}

#[cfg(test)]
mod tests;
