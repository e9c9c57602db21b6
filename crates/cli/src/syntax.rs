//! What is said about a command line that has no meaning: one line for the error, one for the hint.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::CommandLine;

/// Why there are no arguments to go on with.
pub enum Refusal {
    /// Help or version was asked for; here is the text.
    Text(String),
    /// The form is wrong.
    Syntax { error: String, hint: String },
}

/// Reads the words of the command line.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<CommandLine, Refusal> {
    CommandLine::try_parse_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Refusal::Text(error.render().to_string()),
        _ => {
            let (error, hint) = explain(&error);
            Refusal::Syntax { error, hint }
        }
    })
}

/// Ends most hints.
const SEE_HELP: &str = "`perf-agent --help` lists all options";

fn explain(error: &Error) -> (String, String) {
    let argument = context(error, ContextKind::InvalidArg).unwrap_or_default();
    let name = argument.split([' ', '=', '[']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => unknown_option(name),
        ErrorKind::UnknownArgument => unexpected(&argument),
        ErrorKind::InvalidSubcommand => {
            unexpected(&context(error, ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("{name} needs a value"), format!("write `{name} VALUE` or `{name}=VALUE`; {SEE_HELP}"))
        }
        ErrorKind::ArgumentConflict => {
            let prior = context(error, ContextKind::PriorArg).unwrap_or_default();
            let prior = prior.split([' ', '=', '[']).next().unwrap_or_default();
            if prior == name && !name.is_empty() {
                (format!("{name} was given twice"), format!("give {name} once"))
            } else {
                mixed()
            }
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            (first.trim_start_matches("error: ").to_owned(), SEE_HELP.to_owned())
        }
    }
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// A capture and a subcommand in one command line.
fn mixed() -> (String, String) {
    (
        "the options of a capture and `doctor` do not go together".to_owned(),
        "run the two one after the other".to_owned(),
    )
}

fn unknown_option(name: &str) -> (String, String) {
    let known = known_options();
    if known.iter().any(|option| option == name) {
        return mixed();
    }
    let nearest = nearest(name, &known);
    (format!("this version has no option {name}"), format!("the nearest option is {nearest}; {SEE_HELP}"))
}

fn unexpected(word: &str) -> (String, String) {
    if CommandLine::command().find_subcommand(word).is_some() {
        return mixed();
    }
    let hint = match word {
        "true" | "false" => "the value of a boolean follows a `=`: --kernel-stacks=true".to_owned(),
        _ => format!("to profile a command put it after `--`: perf-agent --profile -- {word}; {SEE_HELP}"),
    };
    (format!("this version has no subcommand {word}"), hint)
}

/// Every option that help shows, with its dashes.
fn known_options() -> Vec<String> {
    let mut command = CommandLine::command();
    command.build();
    let of = |command: &clap::Command| -> Vec<String> {
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        shown.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
    };
    let mut options = of(&command);
    options.extend(command.get_subcommands().flat_map(of));
    options
}

/// The known name that the word begins, else the one that takes the fewest edits to get to.
fn nearest<'a>(name: &str, known: &'a [String]) -> &'a str {
    let wanted = name.trim_start_matches('-');
    let rank = |option: &&String| {
        let option = option.trim_start_matches('-');
        let begun = wanted.len() >= 3 && option.starts_with(wanted);
        (!begun, edits(wanted, option))
    };
    known.iter().min_by_key(rank).map_or("--help", String::as_str)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other (optimal string
/// alignment). Only the beginning of an overlong text counts.
fn edits(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut rows = vec![vec![0usize; to.len() + 1]; from.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn distances() {
        for (from, to, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("pid", "pdi", 1),
            ("profil", "profile", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(from, to), distance, "{from} {to}");
            assert_eq!(edits(to, from), distance, "{to} {from}");
        }
    }

    #[test]
    fn names_the_nearest_option() {
        let known = known_options();
        for (word, option) in [
            ("--profil", "--profile"),
            ("--sampel-rate", "--sample-rate"),
            ("--flamegraph", "--flamegraph-output"),
            ("--pids", "--pid"),
            ("--tags", "--tag"),
            ("--jsn", "--json"),
        ] {
            assert_eq!(nearest(word, &known), option, "{word}");
        }
    }
}
