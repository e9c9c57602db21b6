//! `events clean`: removes probes that processes have left behind.

use std::process::ExitCode;

use ::events::monitor::{Tracefs, remove_stale};

use super::failure::failed;
use crate::exit_status::ExitStatuses;
use crate::{listing, messages};

/// Removes them and prints their names.
pub fn run(statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let removed = match Tracefs::find(None).and_then(|tracefs| remove_stale(&tracefs)) {
        Ok(removed) => removed,
        Err(error) => return Ok(failed(&error, statuses)),
    };
    if removed.is_empty() {
        messages::note("no process that has ended left a probe behind");
    }
    listing::print(&removed)?;
    Ok(ExitCode::SUCCESS)
}
