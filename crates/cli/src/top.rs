//! `perf-agent top`: the functions of a profile as text, their callers and callees, and the shares of processes, threads and states.

use std::process::ExitCode;

use perfagent::{HotFunction, Hottest, Neighbours, Order, WrittenProfile, visible};

use crate::exit_status::ExitStatuses;
use crate::written_args::{Sort, TopArgs};
use crate::{input, listing, messages};

/// Lines of a table unless `--lines` says otherwise.
const LINES: usize = 30;

/// Prints what the options ask for on standard output.
pub fn run(args: &TopArgs, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let profile = match input::profile(&args.input, args.mode.as_deref()) {
        Ok(profile) => profile,
        Err((error, hint)) => {
            messages::error(&error, hint.as_deref());
            return Ok(ExitCode::from(statuses.failed));
        }
    };
    let value = match input::value(&profile, args.value.as_deref()) {
        Ok(value) => value,
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            return Ok(ExitCode::from(statuses.rejected));
        }
    };
    match text(&View::of(&profile, value), args) {
        Ok(lines) => {
            listing::print(&lines)?;
            Ok(ExitCode::SUCCESS)
        }
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            Ok(ExitCode::from(statuses.rejected))
        }
    }
}

/// A profile, and the value of it that is shown.
struct View<'a> {
    profile: &'a perfagent::model::Profile,
    value: usize,
    unit: perfagent::model::ValueType,
}

impl<'a> View<'a> {
    fn of(profile: &'a WrittenProfile, value: Option<usize>) -> Self {
        let profile = profile.profile();
        let value = value.unwrap_or_else(|| profile.default_value());
        Self { profile, value, unit: profile.sample_types.get(value).cloned().unwrap_or_default() }
    }

    /// A value; a number of things without its unit, which the heading has.
    fn amount(&self, value: u64) -> String {
        if self.unit.unit == "count" { value.to_string() } else { perfagent::amount(value, &self.unit) }
    }

    fn heading(&self, whole: u64) -> String {
        let samples = self.profile.samples.len();
        format!("{}: {} in {samples} different stacks", self.unit.kind, perfagent::amount(whole, &self.unit))
    }
}

fn text(view: &View<'_>, args: &TopArgs) -> Result<Vec<String>, (String, String)> {
    let limit = args.lines.unwrap_or(LINES);
    let order = match args.sort.unwrap_or_default() {
        Sort::Flat => Order::Own,
        Sort::Cum => Order::Total,
    };
    let all = perfagent::ranked(view.profile, view.value, order);
    let mut lines = vec![view.heading(all.whole)];
    if let Some(key) = &args.by {
        let shares = perfagent::label_shares(view.profile, view.value, key).ok_or_else(|| {
            let keys = perfagent::label_keys(view.profile).join(", ");
            let hint = if keys.is_empty() { "it has no labels".to_owned() } else { format!("it has {keys}") };
            (format!("--by {key}: the profile has no such label"), hint)
        })?;
        lines.extend(by_label(view, &all, key, &shares, limit));
    } else if let Some(name) = &args.function {
        let found = perfagent::neighbours(view.profile, view.value, name);
        if found.is_empty() {
            let hint = "`perf-agent top FILE --sort cum` lists the functions".to_owned();
            return Err((
                format!("--function {name}: no function of the profile has this in its name"),
                hint,
            ));
        }
        found.iter().for_each(|function| lines.extend(around(view, &all, function, limit)));
    } else {
        lines.extend(functions(view, &all, limit));
    }
    Ok(lines)
}

/// A table of functions.
fn functions(view: &View<'_>, all: &Hottest, limit: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>12}  {:>6}  {:>6}  {:>12}  {:>6}  function",
        "flat", "flat%", "sum%", "cum", "cum%"
    )];
    let mut sum = 0u64;
    for function in all.functions.iter().take(limit) {
        sum = sum.saturating_add(function.own);
        lines.push(format!(
            "{:>12}  {:>5.1}%  {:>5.1}%  {:>12}  {:>5.1}%  {}",
            view.amount(function.own),
            all.percent(function.own),
            all.percent(sum),
            view.amount(function.total),
            all.percent(function.total),
            name(function)
        ));
    }
    lines.extend(rest(all.functions.len(), limit, "functions"));
    lines
}

/// A function between its callers and its callees.
fn around(view: &View<'_>, all: &Hottest, of: &Neighbours, limit: usize) -> Vec<String> {
    let row = |function: &HotFunction, indent: &str| {
        let share = all.percent(function.total);
        format!("{:>12}  {share:>5.1}%  {indent}{}", view.amount(function.total), name(function))
    };
    let listed = |functions: &[HotFunction], indent: &'static str| -> Vec<String> {
        let shown = functions.iter().take(limit).map(|function| row(function, indent));
        shown.chain(rest(functions.len(), limit, "functions")).collect()
    };
    let flat = format!("{}, {:.1}% itself", view.amount(of.function.own), all.percent(of.function.own));
    let mut lines = vec![String::new()];
    lines.extend(listed(&of.callers, "  called by "));
    lines.push(format!("{} ({flat})", row(&of.function, "")));
    lines.extend(listed(&of.callees, "  calls "));
    lines
}

/// A table of the values of a label.
fn by_label(
    view: &View<'_>,
    all: &Hottest,
    key: &str,
    shares: &[(String, u64)],
    limit: usize,
) -> Vec<String> {
    let row = |(text, value): &(String, u64)| {
        let text = if text.is_empty() { "(none)".to_owned() } else { visible(text).to_string() };
        format!("{:>12}  {:>5.1}%  {text}", view.amount(*value), all.percent(*value))
    };
    let heading = format!("{:>12}  {:>6}  {}", "flat", "flat%", visible(key));
    let rows = shares.iter().take(limit).map(row);
    std::iter::once(heading).chain(rows).chain(rest(shares.len(), limit, "values")).collect()
}

/// Tells how many were left out.
fn rest(all: usize, limit: usize, what: &str) -> Option<String> {
    (all > limit).then(|| format!("… {} more {what} (-n)", all - limit))
}

fn name(of: &HotFunction) -> String {
    listing::function(&of.name, &of.file)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        top: TopArgs,
    }

    fn told(words: &[&str]) -> Result<Vec<String>, (String, String)> {
        let folded = "main;load;read 70\nmain;load 20\nmain;draw 9\nmain 1\n";
        let profile = WrittenProfile::read_from(folded.as_bytes()).unwrap();
        let args = Words::parse_from(["top", "file"].iter().chain(words)).top;
        text(&View::of(&profile, None), &args)
    }

    #[test]
    fn functions_by_what_was_spent_in_them() {
        assert_eq!(
            told(&["-n", "2"]).unwrap(),
            [
                "samples: 100 samples in 4 different stacks",
                "        flat   flat%    sum%           cum    cum%  function",
                "          70   70.0%   70.0%            70   70.0%  read",
                "          20   20.0%   90.0%            90   90.0%  load",
                "… 2 more functions (-n)",
            ]
        );
        let cumulative = told(&["--sort", "cum"]).unwrap();
        assert_eq!(cumulative[2], "           1    1.0%    1.0%           100  100.0%  main");
    }

    #[test]
    fn a_function_between_its_callers_and_callees() {
        assert_eq!(
            told(&["--function", "load"]).unwrap()[1..],
            [
                "",
                "          90   90.0%    called by main",
                "          90   90.0%  load (20, 20.0% itself)",
                "          70   70.0%    calls read",
            ]
        );
        assert!(told(&["--function", "store"]).unwrap_err().0.contains("no function"));
    }

    #[test]
    fn a_label_that_is_not_there_is_an_error() {
        let (error, hint) = told(&["--by", "comm"]).unwrap_err();
        assert_eq!(
            (error.as_str(), hint.as_str()),
            ("--by comm: the profile has no such label", "it has no labels")
        );
    }
}
