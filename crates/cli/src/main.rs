//! perf-agent: the command line over the library `perfagent`.
//!
//! In: words to builder, messages, signals, progress, exit status. Guaranteed: status 0 = done, 1 = failed at run time,
//! 2 = command line rejected; messages go to standard error. Not here: everything else; the library does it.
#![forbid(unsafe_code)]

mod args;
mod doctor;
mod exit_status;
mod messages;
mod naming;
mod progress;
mod report;
mod request;
mod run;
mod signals;
mod starting;
mod syntax;

use std::ffi::OsStr;
use std::io::Write;
use std::process::ExitCode;

use args::{Action, CommandLine};
use exit_status::{FAILED, REJECTED};
use signals::Interrupts;
use syntax::Refusal;

const LOG_VARIABLE: &str = "PERF_AGENT_LOG";

fn main() -> ExitCode {
    perfagent::keep_heap_small();
    let interrupts = Interrupts::install();
    let code = match interrupts {
        Ok(interrupts) => dispatch(&interrupts),
        Err(error) => Err(anyhow::Error::new(error).context("handle signals")),
    };
    code.unwrap_or_else(|error| {
        messages::error(&format!("{error:#}"), None);
        ExitCode::from(FAILED)
    })
}

fn dispatch(interrupts: &Interrupts) -> anyhow::Result<ExitCode> {
    let command_line = match syntax::parse(std::env::args_os()) {
        Ok(command_line) => command_line,
        Err(Refusal::Text(text)) => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(Refusal::Syntax { error, hint }) => return Ok(reject(&error, &hint)),
    };
    log_if_asked();
    perfagent::raise_permitted()?;
    match command_line {
        CommandLine { action: Some(Action::Doctor { json }), .. } => match json
            .as_deref()
            .and_then(OsStr::to_str)
        {
            _ if json.is_none() => doctor::run(false),
            Some("true") => doctor::run(true),
            Some("false") => doctor::run(false),
            _ => Ok(reject("--json is neither true nor false", "write --json, --json=true or --json=false")),
        },
        CommandLine { action: None, capture } => Ok(run::capture(&capture, interrupts)),
    }
}

fn reject(error: &str, hint: &str) -> ExitCode {
    messages::error(error, Some(hint));
    ExitCode::from(REJECTED)
}

/// The library's log on standard error, if `PERF_AGENT_LOG` names a level or a filter.
fn log_if_asked() {
    let Some(words) = std::env::var_os(LOG_VARIABLE).filter(|words| !words.is_empty()) else { return };
    let words = words.to_string_lossy();
    match tracing_subscriber::EnvFilter::try_new(&words) {
        Ok(filter) => tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init(),
        Err(error) => messages::warning(
            &format!("{LOG_VARIABLE} `{words}` is no level or filter: {error}; nothing is logged"),
            Some("for example: debug, or perfagent=debug"),
        ),
    }
}
