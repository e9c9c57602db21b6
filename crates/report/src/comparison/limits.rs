//! What a comparison found and what it could not have found, in words.

use profile::visible;

use super::{Against, Change, Comparison};

/// Functions that are told by name.
const NAMED: usize = 5;
/// A function with less than this share of a side, in percent, is not told by name.
const HOT: f64 = 1.0;

/// What was found, in one line: how many functions changed significantly, and the first of them.
#[must_use]
pub fn found(comparison: &Comparison) -> String {
    let all = comparison.functions.len();
    let found: Vec<&Change> = comparison.discoveries().collect();
    if found.is_empty() {
        return format!("no function of {all} changed significantly");
    }
    let change = |of: &&Change| {
        let percent =
            if of.percent.is_finite() { format!("{:+.1} %", of.percent) } else { "is new".to_owned() };
        format!("{} {percent}", name(of))
    };
    let told: Vec<String> = found.iter().take(NAMED).map(change).collect();
    let more = if found.len() > NAMED { ", …" } else { "" };
    format!("{} of {all} functions changed significantly: {}{more}", found.len(), told.join(", "))
}

/// What could not be found, one line each: how much profiles of one side scatter, the smallest visible changes, the samples that a change of 5 % needs, and the
/// hottest functions that did not change significantly, each with the change that would have been found.
#[must_use]
pub fn limits(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<String> = scatter(comparison).into_iter().collect();
    let of_share = |share: f64| {
        let smallest = comparison.smallest_visible(share)?;
        Some(format!("{smallest:.0} % in a function with {share} % of the samples"))
    };
    let visible: Vec<String> = [10.0, 1.0].into_iter().filter_map(of_share).collect();
    if !visible.is_empty() {
        lines.push(format!(
            "not detectable: changes below {}; to find one of 5 % for certain takes {} samples in the function on each side",
            visible.join(", below "),
            comparison.samples_needed(5.0)
        ));
    }
    let is_hot = |change: &&Change| !change.is_significant && change.shares.0.max(change.shares.1) >= HOT;
    let mut hottest: Vec<&Change> = comparison.functions.iter().filter(is_hot).collect();
    hottest.sort_by(|a, b| {
        let share = |of: &Change| of.shares.0.max(of.shares.1);
        share(b).total_cmp(&share(a)).then_with(|| a.name.cmp(&b.name))
    });
    let told: Vec<String> =
        hottest.iter().take(NAMED).map(|change| unchanged(change, comparison.against)).collect();
    if !told.is_empty() {
        lines.push(format!("the hottest without a significant change: {}", told.join("; ")));
    }
    lines
}

/// How much profiles of one side scatter.
fn scatter(comparison: &Comparison) -> Option<String> {
    let factor = comparison.dispersion?;
    let (before, after) = comparison.profiles;
    let mut told = format!(
        "{before} profiles before and {after} after: functions scatter between them {factor:.1} times as much as by chance"
    );
    let most =
        comparison.functions.iter().filter(|of| of.before + of.after >= 100 && of.dispersion.is_some());
    let most = most.max_by(|a, b| a.dispersion.unwrap_or(0.0).total_cmp(&b.dispersion.unwrap_or(0.0)));
    if let Some((most, factor)) =
        most.and_then(|of| Some((of, of.dispersion?))).filter(|(_, factor)| *factor > 2.0)
    {
        told += &format!(", {} {factor:.1} times", name(most));
    }
    if before + after < 12 {
        told += "; more profiles show smaller changes";
    }
    Some(told)
}

/// `parse [app] (12.1 % to 12.4 %, 8 % would be found)`, or with samples per second or run.
fn unchanged(change: &Change, against: Against) -> String {
    let ((share_before, share_after), (before, after)) = (change.shares, change.rates);
    let figures = match against {
        Against::Samples => format!("{share_before:.1} % to {share_after:.1} %"),
        Against::Time => format!("{before:.2} to {after:.2} per second"),
        Against::Runs => format!("{before:.2} to {after:.2} per run"),
    };
    let seen = change.visible_percent;
    let found =
        if seen.is_finite() { format!("{seen:.0} % would be found") } else { "too few samples".to_owned() };
    format!("{} ({figures}, {found})", name(change))
}

/// A function with its file.
fn name(change: &Change) -> String {
    let name = visible(if change.name.is_empty() { "(no names)" } else { &change.name });
    if change.file.is_empty() { name.into_owned() } else { format!("{name} [{}]", visible(&change.file)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, shares: (f64, f64), is_significant: bool) -> Change {
        Change {
            name: name.to_owned(),
            before: 500,
            after: 500,
            shares,
            visible_percent: 12.3,
            is_significant,
            ..Change::default()
        }
    }

    #[test]
    fn the_hottest_functions_that_did_not_change_are_told_with_what_would_be_found() {
        let functions = vec![
            change("grew", (10.0, 30.0), true),
            change("cold", (0.5, 0.6), false),
            change("warm", (5.0, 4.0), false),
            Change { visible_percent: f64::INFINITY, ..change("hot", (1.0, 60.0), false) },
        ];
        let samples = (10_000, 10_000);
        let of = Comparison { samples, functions, profiles: (1, 1), ..Comparison::default() };
        assert_eq!(found(&of), "1 of 4 functions changed significantly: grew +0.0 %");
        assert_eq!(found(&Comparison::default()), "no function of 0 changed significantly");
        let lines = limits(&of);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with(
            "not detectable: changes below 17 % in a function with 10 % of the samples, below 55 % in a function with 1 %"
        ));
        let hottest = "hot (1.0 % to 60.0 %, too few samples); warm (5.0 % to 4.0 %, 12 % would be found)";
        assert_eq!(lines[1], format!("the hottest without a significant change: {hottest}"));
        assert_eq!(limits(&Comparison::default()), Vec::<String>::new());
        let told = |against| {
            let of = Change { rates: (0.5, 12.0), ..change("f", (10.0, 11.0), false) };
            limits(&Comparison { against, functions: vec![of], ..Comparison::default() }).pop().unwrap()
        };
        assert!(told(Against::Time).ends_with("f (0.50 to 12.00 per second, 12 % would be found)"));
        assert!(told(Against::Runs).ends_with("f (0.50 to 12.00 per run, 12 % would be found)"));
    }

    #[test]
    fn the_scatter_between_profiles_is_told_with_the_function_that_scatters_most() {
        let mut bursts = change("collect", (0.5, 0.5), true);
        bursts.dispersion = Some(7.25);
        let functions = vec![bursts, change("f", (0.5, 0.5), true)];
        let of = |profiles| Comparison {
            functions: functions.clone(),
            profiles,
            dispersion: Some(1.31),
            ..Comparison::default()
        };
        let line = "functions scatter between them 1.3 times as much as by chance, collect 7.2 times";
        assert_eq!(
            limits(&of((3, 3)))[0],
            format!("3 profiles before and 3 after: {line}; more profiles show smaller changes")
        );
        assert_eq!(limits(&of((30, 3)))[0], format!("30 profiles before and 3 after: {line}"));
    }
}
