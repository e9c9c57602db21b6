//! `perf-agent diff`: what changed between profiles, beyond chance.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use perfagent::{Change, Comparison, DifferenceFormat, FileTarget, Part, Widths, WrittenProfile};

use crate::exit_status::ExitStatuses;
use crate::signals::Interrupts;
use crate::written_args::{Against, DiffArgs, Sort, WidthsOf};
use crate::{input, listing, messages, written_output};

/// Functions in the table unless `--lines` says otherwise.
const LINES: usize = 30;
/// Width of the columns before and after.
const WIDTH: usize = 8;
/// The status if a function grew by more than `--fail-above`.
const GREW: u8 = 3;

/// Compares the profiles, prints the functions that changed on standard output, and draws the graph that was asked for.
pub fn run(args: &DiffArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let ((before, after), format) = match sides(args).and_then(|sides| Ok((sides, format(args)?))) {
        Ok(asked) => asked,
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            return Ok(ExitCode::from(statuses.rejected));
        }
    };
    let read = |paths: &[PathBuf]| -> Result<Vec<(String, WrittenProfile)>, _> {
        let named = |path: &PathBuf| {
            input::profile(path, args.mode.as_deref()).map(|profile| (path.display().to_string(), profile))
        };
        paths.iter().map(named).collect()
    };
    let sides = match read(&before).and_then(|before| Ok((before, read(&after)?))) {
        Ok((before, after)) => (with_samples(before), with_samples(after)),
        Err((error, hint)) => {
            messages::error(&error, hint.as_deref());
            return Ok(ExitCode::from(statuses.failed));
        }
    };
    let part = match args.sort.unwrap_or_default() {
        Sort::Flat => Part::Own,
        Sort::Cum => Part::Total,
    };
    let against = match args.against.unwrap_or_default() {
        Against::Samples => perfagent::Against::Samples,
        Against::Time => perfagent::Against::Time,
        Against::Runs => perfagent::Against::Runs,
    };
    let drawn = args.output.as_ref().map(|output| {
        let output: &OsStr = output.as_ref();
        let widths = match args.widths.unwrap_or_default() {
            WidthsOf::Before => Widths::Before,
            WidthsOf::After => Widths::After,
        };
        let (target, temporary) = (FileTarget::from_word(output), &interrupts.temporary_files);
        let look = (format, widths);
        (output, WrittenProfile::write_difference(&sides.0, &sides.1, against, look, target, temporary))
    });
    if let Some((output, Err(error))) = drawn {
        return Ok(written_output::end(output, Err(error), statuses));
    }
    let comparison = match WrittenProfile::compare(sides.0, sides.1, against, part) {
        Ok(comparison) => comparison,
        Err(error) => {
            messages::library_error(&error);
            return Ok(ExitCode::from(statuses.failed));
        }
    };
    let grew = args.fail_above.map(|limit| grew(&comparison, limit)).unwrap_or_default();
    let mut lines = text(&comparison, args);
    if let Some(limit) = args.fail_above {
        lines.push(format!("grew by more than {limit} %: {}", listed(&grew)));
    }
    listing::print(&lines)?;
    if let Some((output, written)) = drawn {
        written_output::end(output, written, statuses);
    }
    Ok(if grew.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(GREW) })
}

type Files = Vec<PathBuf>;

/// Leaves out profiles without samples, unless the side has no others.
fn with_samples(side: Vec<(String, WrittenProfile)>) -> Vec<(String, WrittenProfile)> {
    if side.iter().all(|(_, profile)| profile.is_empty()) {
        return side;
    }
    let (empty, rest): (Vec<_>, Vec<_>) = side.into_iter().partition(|(_, profile)| profile.is_empty());
    for (name, _) in &empty {
        messages::warning(&format!("{name} has no samples: it is left out"), None);
    }
    rest
}

/// How the difference is drawn where it is asked for, or the error and the hint.
fn format(args: &DiffArgs) -> Result<DifferenceFormat, (String, String)> {
    let Some(output) = args.output.as_ref().map(|output| Path::new(AsRef::<OsStr>::as_ref(output))) else {
        return Ok(DifferenceFormat::default());
    };
    let hint = "give a path that ends in .svg or .html".to_owned();
    if output == Path::new("-") {
        return Err(("--output -: standard output has the table".to_owned(), hint));
    }
    match output.extension().and_then(OsStr::to_str) {
        Some("svg") => Ok(DifferenceFormat::Svg),
        Some("html" | "htm") => Ok(DifferenceFormat::Html),
        _ => Err((format!("--output {}: a difference is drawn as SVG or HTML", output.display()), hint)),
    }
}

/// The files before and after, or the error and the hint.
fn sides(args: &DiffArgs) -> Result<(Files, Files), (String, String)> {
    match (args.base.as_slice(), args.files.as_slice()) {
        ([], [before, after]) => Ok((vec![before.clone()], vec![after.clone()])),
        ([], files) => Err((
            format!("diff takes two profiles, not {}", files.len()),
            "write `perf-agent diff BEFORE AFTER`, or name the side before by --base: --base A1 --base A2 B1 B2"
                .to_owned(),
        )),
        (base, files) => Ok((base.to_vec(), files.to_vec())),
    }
}

/// The functions that grew by more than `limit` percent for certain.
fn grew(comparison: &Comparison, limit: f64) -> Vec<&Change> {
    comparison.discoveries().filter(|change| change.interval.0 > limit).collect()
}

fn listed(changes: &[&Change]) -> String {
    match changes {
        [] => "none".to_owned(),
        some => some.iter().map(|change| name(change)).collect::<Vec<_>>().join(", "),
    }
}

fn text(comparison: &Comparison, args: &DiffArgs) -> Vec<String> {
    let (before, after) = comparison.samples;
    let which = if args.sort == Some(Sort::Cum) { "cum" } else { "flat" };
    let against = match comparison.against {
        perfagent::Against::Samples => "of all samples",
        perfagent::Against::Time => "samples per second",
        perfagent::Against::Runs => "samples per run",
    };
    let mut lines = vec![format!("{before} samples before, {after} after; {which}, {against}")];
    let found: Vec<&Change> = comparison.discoveries().collect();
    let all = comparison.functions.len();
    if found.is_empty() {
        lines.push(format!("no function of {all} changed significantly"));
    } else {
        let functions = if found.len() == 1 { "function" } else { "functions" };
        lines.push(format!("{} {functions} of {all} changed significantly:", found.len()));
        lines.push(format!(
            "{:>WIDTH$}  {:>WIDTH$}  {:>9}  {:>22}  function",
            "before", "after", "change", "95 % interval"
        ));
        let limit = args.lines.unwrap_or(LINES);
        lines.extend(found.iter().take(limit).map(|change| row(change, comparison.against)));
        if found.len() > limit {
            lines.push(format!("… {} more functions (-n)", found.len() - limit));
        }
    }
    lines.extend(perfagent::comparison_limits(comparison));
    lines
}

fn row(change: &Change, against: perfagent::Against) -> String {
    let interval = format!("{:+.1} … {:+.1} %", change.interval.0, change.interval.1);
    let percent =
        if change.percent.is_infinite() { "new".to_owned() } else { format!("{:+.1} %", change.percent) };
    let figure = |share: f64, rate: f64| match against {
        perfagent::Against::Samples => format!("{share:.2}%"),
        perfagent::Against::Time | perfagent::Against::Runs => format!("{rate:.2}"),
    };
    let before = figure(change.shares.0, change.rates.0);
    let after = figure(change.shares.1, change.rates.1);
    format!("{before:>WIDTH$}  {after:>WIDTH$}  {percent:>9}  {interval:>22}  {}", name(change))
}

fn name(change: &Change) -> String {
    listing::function(&change.name, &change.file)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use perfagent::Against::{Runs, Samples};

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        diff: DiffArgs,
    }

    fn args(words: &[&str]) -> DiffArgs {
        Words::parse_from(["diff"].iter().chain(words)).diff
    }

    fn comparison(before: &str, after: &str, against: perfagent::Against) -> Comparison {
        let side =
            |folded: &str| vec![(folded.to_owned(), WrittenProfile::read_from(folded.as_bytes()).unwrap())];
        WrittenProfile::compare(side(before), side(after), against, Part::Own).unwrap()
    }

    #[test]
    fn changes_are_told_with_their_interval_and_what_could_not_be_seen() {
        let comparison = comparison("main;f 500\nmain;g 500", "main;f 700\nmain;g 300\nmain;h 1\n", Samples);
        let lines = text(&comparison, &args(&["a", "b"]));
        assert_eq!(lines[0], "1000 samples before, 1001 after; flat, of all samples");
        assert_eq!(lines[1], "2 functions of 3 changed significantly:");
        assert_eq!(lines[3], "  50.00%    29.97%    -40.1 %         -46.4 … -32.8 %  g");
        assert!(lines[4].contains("+39.9 %") && lines[4].ends_with("  f"), "{}", lines[4]);
        assert!(lines[5].starts_with("not detectable: changes below "), "{}", lines[5]);
        assert_eq!(listed(&grew(&comparison, 29.0)), "f");
        assert_eq!(listed(&grew(&comparison, 31.0)), "none", "the lower end counts");
    }

    #[test]
    fn against_runs_the_columns_are_samples_of_a_run() {
        let comparison = comparison("main;f 500\nmain;g 500", "main;f 2000\nmain;g 500", Runs);
        let lines = text(&comparison, &args(&["a", "b", "--against", "runs"]));
        assert_eq!(lines[0], "1000 samples before, 2500 after; flat, samples per run");
        assert!(lines[3].starts_with("  500.00   2000.00   +300.0 %"), "{}", lines[3]);
        assert!(lines.last().unwrap().contains("g (500.00 to 500.00 per run, "), "{lines:?}");
    }

    #[test]
    fn sides_are_two_files_or_named_by_base() {
        let told = |words: &[&str]| sides(&args(words)).map(|(before, after)| (before.len(), after.len()));
        assert_eq!(told(&["a", "b"]), Ok((1, 1)));
        assert_eq!(told(&["--base", "a", "--base", "b", "c"]), Ok((2, 1)));
        assert_eq!(told(&["a"]).unwrap_err().0, "diff takes two profiles, not 1");
        assert_eq!(args(&["a", "b", "--fail-above", "5%"]).fail_above, Some(5.0));
    }
}
