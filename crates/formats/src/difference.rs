//! Two sides of profiles that are compared, for pictures and pages of their difference.

use profile::Profile;

/// Which side gives the frames their widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Widths {
    /// The one before.
    Before,
    /// The one after.
    #[default]
    After,
}

/// What the samples of a frame are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Measured {
    /// All samples of its side.
    #[default]
    Share,
    /// The seconds of its side.
    PerSecond,
    /// The runs of its side.
    PerRun,
}

/// A profile of a side.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a Profile,
    /// The number of its value that counts samples.
    pub value: usize,
    /// What its samples are measured against: their number, seconds, or 1 for a run.
    pub exposure: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// The profiles of the side before.
    pub before: &'a [Counted<'a>],
    /// The profiles of the side after.
    pub after: &'a [Counted<'a>],
    /// What samples are measured against.
    pub measured: Measured,
    /// The side that gives the widths.
    pub widths: Widths,
}

impl<'a> Difference<'a> {
    /// All profiles, those before first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Counted<'a>> {
        self.before.iter().chain(self.after)
    }
}

/// The samples of one of a profile's stacks; 0 if the value is negative or missing.
pub(crate) fn count(of: &Counted<'_>, sample: &profile::Sample) -> u64 {
    sample.values.get(of.value).and_then(|count| u64::try_from(*count).ok()).unwrap_or(0)
}
