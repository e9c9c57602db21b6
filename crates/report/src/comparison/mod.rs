//! Two sides of profiles compared function by function: what changed beyond chance, and how large a change could have been seen.
//!
//! A sample is a count: the number of samples of a function scatters as Poisson's distribution tells. So each change has an interval, and among many
//! functions only those are significant that Benjamini and Hochberg's procedure keeps at a rate of false discoveries of 1 %.
//! Values that are no counts, as nanoseconds, are shown but never judged by.

mod counts;
mod limits;
mod question;
mod significance;

use std::cmp::Reverse;

use profile::Profile;

use self::counts::{Counts, counts};
pub use self::counts::{Tally, counted_value, exposure};
pub use self::limits::{found, limits};
pub use self::question::{Against, ComparisonError, Part};
use self::significance::{Dispersion, Side, Verdict};

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
    /// Its samples before and after by what they are measured against: parts of all samples, samples per second, or samples per run.
    pub rates: (f64, f64),
    /// After divided by before, less 1, in percent; infinite for a function that is new.
    pub percent: f64,
    /// The interval of `percent` that contains the true change in 95 of 100 comparisons.
    pub interval: (f64, f64),
    /// How likely a difference of this size is if nothing changed.
    pub p_value: f64,
    /// How much more its samples scatter between the profiles of a side than by chance, as a multiple of the variance; only with several profiles.
    pub dispersion: Option<f64>,
    /// The smallest change, in percent, that would be found in 80 of 100 comparisons; infinite where a side would have less than one sample.
    pub visible_percent: f64,
    /// Whether it is a discovery.
    pub is_significant: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// What samples are measured against.
    pub against: Against,
    /// Samples before and after.
    pub samples: (u64, u64),
    /// All functions of both sides: discoveries first, each part by the size of the change in what is compared, as shares or samples per second.
    pub functions: Vec<Change>,
    /// The profiles before and after.
    pub profiles: (usize, usize),
    /// The mean of the functions' own [`dispersion`](Change::dispersion); only with several profiles on a side. Below 1: they scatter no more than by chance.
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
        let of = |samples: u64| samples as f64 * share / 100.0;
        let (before, after) = (of(self.samples.0), of(self.samples.1));
        (before.min(after) >= 1.0)
            .then(|| significance::smallest_visible((before, after), self.functions.len(), self.common()))
    }

    /// The samples IN a function that each side needs, so that a change of `percent` is found in 20 of 20 comparisons.
    #[must_use]
    pub fn samples_needed(&self, percent: f64) -> u64 {
        significance::samples_needed(percent, self.functions.len(), self.common())
    }

    fn common(&self) -> Option<Dispersion> {
        let freedom = (self.profiles.0 + self.profiles.1).saturating_sub(2);
        self.dispersion.map(|phi| Dispersion { phi, freedom })
    }
}

/// Compares two sides, each of one or several profiles with their names. With several profiles on a side, as runs or the intervals of a rotated capture, the
/// scatter of each function between them is measured and widens its interval.
///
/// # Errors
/// [`ComparisonError`]: a profile cannot be compared.
pub fn compare(
    before: &[(String, Profile)],
    after: &[(String, Profile)],
    against: Against,
    part: Part,
) -> Result<Comparison, ComparisonError> {
    let profiles = (before.len(), after.len());
    let before = counts(before, against, part)?;
    let after = counts(after, against, part)?;
    let paired: Vec<_> = counts::paired(&before, &after)
        .map(|(function, of_before, of_after)| (function, (before.side(of_before), after.side(of_after))))
        .collect();
    let sides: Vec<_> = paired.iter().map(|(_, sides)| *sides).collect();
    let mut functions: Vec<Change> =
        paired.into_iter().map(|(function, sides)| change(function, sides, against)).collect();
    mark_discoveries(functions.iter_mut());
    let all = functions.len();
    for (change, sides) in functions.iter_mut().zip(&sides) {
        change.visible_percent = visible_percent(*sides, all, against);
    }
    let exposures = sides.first().map_or((1.0, 1.0), |(a, b)| (a.exposure, b.exposure));
    functions.sort_by(|a, b| {
        let moved = |of: &Change| (of.after as f64 / exposures.1 - of.before as f64 / exposures.0).abs();
        let key = |change: &Change| Reverse(change.is_significant);
        key(a)
            .cmp(&key(b))
            .then_with(|| moved(b).total_cmp(&moved(a)))
            .then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file)))
    });
    let samples = (before.whole(), after.whole());
    let dispersion = significance::common_dispersion(&sides, against).map(|of| of.phi);
    Ok(Comparison { against, samples, functions, profiles, dispersion })
}

/// Judges counts that are not those of functions, as those of the frames of a graph.
pub struct Judge {
    against: Against,
    before: Counts,
    after: Counts,
}

impl Judge {
    /// For two sides, as in [`compare`].
    ///
    /// # Errors
    /// [`ComparisonError`]: a profile cannot be compared.
    pub fn new(
        before: &[(String, Profile)],
        after: &[(String, Profile)],
        against: Against,
    ) -> Result<Self, ComparisonError> {
        let side = |profiles| counts(profiles, against, Part::Total);
        Ok(Self { against, before: side(before)?, after: side(after)? })
    }

    /// Judges what was counted before and after, all together: among many, some differ by chance. Pairs of less than ten samples are never
    /// discoveries, and cost the others nothing: a graph has thousands of them.
    #[must_use]
    pub fn judge(&self, pairs: &[(Tally, Tally)]) -> Vec<Change> {
        let sides = |(a, b): &(Tally, Tally)| (self.before.counted(*a), self.after.counted(*b));
        let mut changes: Vec<Change> =
            pairs.iter().map(|pair| change(("", ""), sides(pair), self.against)).collect();
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

fn change((name, file): (&str, &str), (a, b): (Side, Side), against: Against) -> Change {
    let Verdict { percent, interval, p_value, dispersion } = significance::judge(a, b, against);
    let share = |side: Side| 100.0 * side.count as f64 / (side.whole.max(1)) as f64;
    let rate = |side: Side| side.count as f64 / side.exposure;
    Change {
        name: name.to_owned(),
        file: file.to_owned(),
        before: a.count,
        after: b.count,
        shares: (share(a), share(b)),
        rates: (rate(a), rate(b)),
        percent,
        interval,
        p_value,
        dispersion: dispersion.map(|of| of.phi),
        visible_percent: f64::INFINITY,
        is_significant: false,
    }
}

/// The smallest change that would be found in a function: of the samples that both sides would have if nothing had changed.
fn visible_percent((a, b): (Side, Side), functions: usize, against: Against) -> f64 {
    let both = (a.count + b.count) as f64 / (a.exposure + b.exposure);
    let expected = (both * a.exposure, both * b.exposure);
    if expected.0.min(expected.1) < 1.0 {
        return f64::INFINITY;
    }
    significance::smallest_visible(expected, functions, significance::dispersion(a, b, against))
}

#[cfg(test)]
mod tests;
