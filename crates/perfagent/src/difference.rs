//! The difference of two sides of profiles as a picture or a page, from what `report` judges and `formats` draws.

use std::io;

use formats::flamegraph::{self, Judgement};
use formats::{Counted, Difference, EncodeOptions, Measured, Widths, html};
use profile::Profile;
use report::{Against, Change, Judge, Part};

/// How a difference is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DifferenceFormat {
    /// A flame graph.
    #[default]
    Svg,
    /// A page to explore.
    Html,
}

/// Why there is no difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DifferenceError {
    #[error(transparent)]
    Compare(#[from] report::ComparisonError),
    #[error(transparent)]
    Encode(#[from] io::Error),
}

/// The difference in a format. Profiles have the names of their files.
pub(crate) fn bytes(
    before: &[(String, Profile)],
    after: &[(String, Profile)],
    against: Against,
    format: DifferenceFormat,
    widths: Widths,
) -> Result<Vec<u8>, DifferenceError> {
    // Whether they can be compared is asked first: only then all have a value that counts.
    let comparison = report::compare(before, after, against, Part::Own)?;
    let (of_before, of_after) = (counted(before, against), counted(after, against));
    let measured = match against {
        Against::Samples => Measured::Share,
        Against::Time => Measured::PerSecond,
        Against::Runs => Measured::PerRun,
    };
    let difference = Difference { before: &of_before, after: &of_after, measured, widths };
    let by = match against {
        Against::Samples => "shares of all samples, which fall when other functions grow",
        Against::Time => "samples per second",
        Against::Runs => "samples per run",
    };
    let mut options = EncodeOptions {
        title: format!("{} → {}", names(before), names(after)),
        subtitle: format!("{by}; what may be chance is grey (Benjamini-Hochberg at 1 %)"),
        ..EncodeOptions::default()
    };
    let mut out = Vec::new();
    match format {
        DifferenceFormat::Svg => {
            let wide = if widths == Widths::Before { "before" } else { "after" };
            options.subtitle = format!("{}; widths: {wide}", options.subtitle);
            let judge = Judge::new(before, after, against)?;
            let tally = |of: &flamegraph::Tally| report::Tally { count: of.count, squares: of.squares };
            let judged = |pairs: &[(flamegraph::Tally, flamegraph::Tally)]| {
                let pairs: Vec<_> = pairs.iter().map(|(a, b)| (tally(a), tally(b))).collect();
                judge.judge(&pairs).into_iter().map(judgement).collect()
            };
            flamegraph::write_difference(&difference, judged, &options, &mut out)?;
        }
        DifferenceFormat::Html => {
            let mut notes = vec![report::found(&comparison)];
            notes.extend(report::limits(&comparison));
            html::write_difference(&difference, &notes, &options, &mut out)?;
        }
    }
    Ok(out)
}

/// Each profile with the value that counts its samples. Profiles without one were refused.
fn counted(profiles: &[(String, Profile)], against: Against) -> Vec<Counted<'_>> {
    fn counted((name, profile): &(String, Profile), against: Against) -> Counted<'_> {
        let value = report::counted_value(profile).unwrap_or_default();
        Counted { name, profile, value, exposure: report::exposure(profile, against) }
    }
    profiles.iter().map(|profile| counted(profile, against)).collect()
}

fn names(profiles: &[(String, Profile)]) -> String {
    profiles.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" + ")
}

fn judgement(change: Change) -> Judgement {
    Judgement { percent: change.percent, interval: change.interval, is_significant: change.is_significant }
}
