//! Reads the command line. A rejection is one line for the error and one line for the hint.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::CommandLine;
use crate::other_tools;

/// Why the command line gives no arguments.
pub enum Refusal {
    /// The user asked for help or the version: this text.
    Text(String),
    /// The syntax is wrong.
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

/// The line that `--version` prints.
pub fn version() -> String {
    CommandLine::command().render_version()
}

/// Ends most hints.
const SEE_HELP: &str = "`perf-agent --help` lists all options";

/// One line for the error and one for the hint.
fn explain(error: &Error) -> (String, String) {
    let argument = context(error, ContextKind::InvalidArg).unwrap_or_default();
    let name = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let value = context(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => unknown_option(name, error),
        ErrorKind::UnknownArgument => unexpected(&argument),
        ErrorKind::InvalidSubcommand => {
            unexpected(&context(error, ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::InvalidUtf8 => {
            (format!("{name}: `{value}` is not valid UTF-8"), format!("write the value as text; {SEE_HELP}"))
        }
        ErrorKind::InvalidValue if !value.is_empty() && !known_values(error).contains(&"true".to_owned()) => {
            let known = known_values(error);
            let (last, others) =
                known.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
            (
                format!("{name}: `{value}` is none of {}", known.join(", ")),
                format!("write {name} {} or {last}; {SEE_HELP}", others.join(", ")),
            )
        }
        ErrorKind::InvalidValue if !value.is_empty() || argument.contains("[=") => (
            format!("{name}: `{value}` is neither true nor false"),
            format!("write {name}, {name}=true or {name}=false"),
        ),
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => (
            "events needs a word that says what to do".to_owned(),
            "write `perf-agent events list`, `format GROUP:NAME`, `trace -e EVENT` or `stat -e EVENT,EVENT`"
                .to_owned(),
        ),
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("{name} needs a value"), format!("write `{name} VALUE` or `{name}=VALUE`; {SEE_HELP}"))
        }
        ErrorKind::ArgumentConflict => {
            let prior = context(error, ContextKind::PriorArg).unwrap_or_default();
            let prior = prior.split([' ', '=', '[']).next().unwrap_or_default();
            if prior == name && !name.is_empty() {
                (format!("{name} was given twice"), format!("give {name} once"))
            } else if name.starts_with('-') && prior.starts_with('-') {
                (
                    format!("{name} cannot be used with {prior}"),
                    format!("leave out {name} or {prior}; {SEE_HELP}"),
                )
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

/// The values that an option knows.
fn known_values(error: &Error) -> Vec<String> {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.clone(),
        _ => Vec::new(),
    }
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// Names each argument that a subcommand needs and did not get.
fn missing(error: &Error) -> (String, String) {
    let arguments = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(all)) => all.join(", "),
        Some(ContextValue::String(one)) => one.clone(),
        _ => "an argument".to_owned(),
    };
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let usage = usage.trim().trim_start_matches("Usage: ");
    let hint = if usage.is_empty() { SEE_HELP.to_owned() } else { format!("write `{usage}`; {SEE_HELP}") };
    (format!("{arguments} is missing"), hint)
}

/// The command line asks for a capture and a subcommand.
fn mixed() -> (String, String) {
    (
        "`doctor` takes no option of a capture".to_owned(),
        "run the capture and `perf-agent doctor` one after the other".to_owned(),
    )
}

/// The hint names the option that another tool's word means, or else the most similar option that clap finds.
fn unknown_option(name: &str, error: &Error) -> (String, String) {
    let long = name.trim_start_matches('-');
    if CommandLine::command().get_arguments().any(|option| option.get_long() == Some(long)) {
        return mixed();
    }
    let similar =
        || context(error, ContextKind::SuggestedArg).map(|similar| format!("a similar option is {similar}"));
    let hint = match other_tools::option(name).or_else(similar) {
        Some(meant) => format!("{meant}; {SEE_HELP}"),
        None => SEE_HELP.to_owned(),
    };
    (format!("this version has no option {name}"), hint)
}

fn unexpected(word: &str) -> (String, String) {
    if CommandLine::command().find_subcommand(word).is_some() {
        return mixed();
    }
    if let Some(instead) = other_tools::subcommand(word) {
        return (format!("this version has no subcommand {word}"), format!("{instead}; {SEE_HELP}"));
    }
    let hint = match word {
        "true" | "false" => "the value of a Boolean option follows a `=`: --kernel-stacks=true".to_owned(),
        _ => format!("to profile a command, put it after `--`: perf-agent --profile -- {word}; {SEE_HELP}"),
    };
    (format!("this version has no subcommand {word}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_known_are_answered_with_those_that_are() {
        for (words, known) in
            [(["--merge", "tid"], "pid, comm, all"), (["--color", "on"], "auto, always, never")]
        {
            let words = std::iter::once("perf-agent").chain(words).map(OsString::from);
            let Err(Refusal::Syntax { error, .. }) = parse(words) else { panic!("{known}") };
            assert!(error.ends_with(&format!("is none of {known}")), "{error}");
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_named() {
        let words = ["perf-agent", "events", "stat", "--pid", "1", "--cgroup", "x"].map(OsString::from);
        let Err(Refusal::Syntax { error, hint }) = parse(words) else { panic!("both are taken") };
        assert_eq!(error, "--pid cannot be used with --cgroup");
        assert!(hint.starts_with("leave out --pid or --cgroup"), "{hint}");
    }

    #[test]
    fn missing_arguments_are_named() {
        for (words, error, usage) in [
            (&["render"][..], "<FILE> is missing", "perf-agent render "),
            (&["symbolize"], "--output <OUT>, <IN> is missing", "perf-agent symbolize "),
            (&["symbolize", "-o", "out"], "<IN> is missing", "perf-agent symbolize "),
            (&["convert", "in"], "--output <OUT> is missing", "perf-agent convert "),
            (&["merge", "-o", "out"], "<FILE>... is missing", "perf-agent merge "),
            (&["top"], "<FILE> is missing", "perf-agent top "),
        ] {
            let words = std::iter::once("perf-agent").chain(words.iter().copied()).map(OsString::from);
            let Err(Refusal::Syntax { error: said, hint }) = parse(words) else { panic!("{error}") };
            assert_eq!(said, error);
            assert!(hint.starts_with(&format!("write `{usage}")) && !hint.contains('\n'), "{hint}");
        }
    }

    #[test]
    fn clap_accepts_the_definition() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn hints_name_a_similar_option() {
        for (words, similar) in [
            (&["--profil"][..], "--profile"),
            (&["--sampel-rate"], "--sample-rate"),
            (&["--flamegraph"], "--flamegraph-output"),
            (&["--tags"], "--tag"),
            (&["doctor", "--jsn"], "--json"),
        ] {
            let words = std::iter::once("perf-agent").chain(words.iter().copied()).map(OsString::from);
            let Err(Refusal::Syntax { hint, .. }) = parse(words) else { panic!("{similar}") };
            assert!(hint.contains(&format!("is {similar}; ")), "{hint}");
        }
    }
}
