//! perf-agent: the command line of the library `perfagent`.
//!
//! This crate turns options into a builder, prints messages and progress, handles signals and sets the exit status
//! (exit_status.rs). Messages go to standard error. The library does the rest.
#![forbid(unsafe_code)]

mod args;
mod console;
mod convert;
mod diff;
mod doctor;
mod ending;
mod event_args;
mod events;
mod exit_status;
mod file_args;
mod header;
mod input;
mod later_names;
mod library_types;
mod listing;
mod live_view;
mod merge;
mod messages;
mod naming;
mod other_tools;
mod progress;
mod render;
mod request;
mod run;
mod screen;
mod signals;
mod starting;
mod symbol_args;
mod symbolize;
mod syntax;
mod top;
mod values;
mod written_args;
mod written_output;

use std::io::Write;
use std::process::ExitCode;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use args::{Action, CommandLine};
use console::ConsoleArgs;
use exit_status::ExitStatuses;
use signals::Interrupts;
use syntax::Refusal;

const LOG_VARIABLE: &str = "PERF_AGENT_LOG";

fn main() -> ExitCode {
    perfagent::keep_heap_small();
    let statuses = ExitStatuses::of(std::env::args_os());
    let interrupts = Interrupts::install(statuses.failed);
    let code = match interrupts {
        Ok(interrupts) => dispatch(&interrupts, statuses),
        Err(error) => Err(anyhow::Error::new(error).context("handle signals")),
    };
    code.unwrap_or_else(|error| {
        messages::error(&format!("{error:#}"), None);
        ExitCode::from(statuses.failed)
    })
}

fn dispatch(interrupts: &Interrupts, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let command_line = match syntax::parse(std::env::args_os()) {
        Ok(command_line) => command_line,
        Err(Refusal::Text(text)) => return show(&text),
        Err(Refusal::Syntax { error, hint }) => {
            messages::error(&error, Some(&hint));
            return Ok(ExitCode::from(statuses.rejected));
        }
    };
    match &command_line {
        CommandLine { action: Some(Action::Render(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Symbolize(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Convert(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Merge(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Diff(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Top(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Live(args)), .. } => console::set_up(args.console),
        CommandLine { action: Some(Action::Doctor { .. } | Action::Events(_) | Action::Version), .. } => {
            console::set_up(ConsoleArgs::default())
        }
        CommandLine { action: None, capture } => console::set_up(capture.console),
    }
    log_if_asked();
    match command_line {
        CommandLine { action: Some(Action::Version), .. } => show(&syntax::version()),
        // Needs no privilege, so it takes none.
        CommandLine { action: Some(Action::Render(args)), .. } => {
            Ok(render::run(&args, interrupts, statuses))
        }
        CommandLine { action: Some(Action::Symbolize(args)), .. } => {
            Ok(symbolize::run(&args, interrupts, statuses))
        }
        CommandLine { action: Some(Action::Convert(args)), .. } => {
            Ok(convert::run(&args, interrupts, statuses))
        }
        CommandLine { action: Some(Action::Merge(args)), .. } => Ok(merge::run(&args, interrupts, statuses)),
        CommandLine { action: Some(Action::Top(args)), .. } => top::run(&args, statuses),
        CommandLine { action: Some(Action::Diff(args)), .. } => diff::run(&args, interrupts, statuses),
        CommandLine { action: Some(Action::Live(args)), .. } => {
            perfagent::raise_permitted()?;
            Ok(live_view::run(&args, interrupts, statuses))
        }
        CommandLine { action: Some(Action::Events(action)), .. } => {
            perfagent::raise_permitted()?;
            events::run(&action, interrupts, statuses)
        }
        CommandLine { action: Some(Action::Doctor { json }), .. } => {
            perfagent::raise_permitted()?;
            doctor::run(json == Some(true))
        }
        CommandLine { action: None, capture } => {
            perfagent::raise_permitted()?;
            Ok(run::capture(&capture, interrupts, statuses))
        }
    }
}

/// Prints what the user asked for on standard output.
fn show(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the library's log to standard error if `PERF_AGENT_LOG` names a level or a filter.
fn log_if_asked() {
    let Some(words) = std::env::var_os(LOG_VARIABLE).filter(|words| !words.is_empty()) else { return };
    let words = words.to_string_lossy();
    match words.parse::<Targets>() {
        Ok(filter) => {
            let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
            tracing_subscriber::registry().with(lines).with(filter).init();
        }
        Err(error) => messages::warning(
            &format!("{LOG_VARIABLE} `{words}` is neither a level nor a filter: {error}; nothing is logged"),
            Some("for example: debug, or perfagent=debug"),
        ),
    }
}
