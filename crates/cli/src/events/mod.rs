//! `perf-agent events`: what the kernel can tell, and events as they happen. The crate `events` does the work; this is words and output.

mod clean;
mod failure;
mod format;
mod list;
mod other_files;
mod printer;
mod stat;
mod stat_printer;
mod thread_names;
mod trace;

use std::process::ExitCode;

use crate::event_args::EventsAction;
use crate::exit_status::ExitStatuses;
use crate::signals::Interrupts;

/// Runs a subcommand.
pub fn run(
    action: &EventsAction,
    interrupts: &Interrupts,
    statuses: ExitStatuses,
) -> anyhow::Result<ExitCode> {
    match action {
        EventsAction::List { glob, json } => list::run(glob.as_deref(), *json),
        EventsAction::Format { name, json } => format::run(name, *json, statuses),
        EventsAction::Clean => clean::run(statuses),
        EventsAction::Stat(args) => stat::run(args, interrupts, statuses),
        EventsAction::Trace(args) => trace::run(args, interrupts, statuses),
    }
}
