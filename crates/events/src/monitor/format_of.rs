//! The fields of an event before it is registered.

use std::path::Path;

use tracepoints::Format;

use super::error::MonitorError;
use super::probe::prepare;
use super::request::{EventRequest, What};
use super::tracefs::Tracefs;

/// The fields that records of an event have; none if it is neither a tracepoint nor a probe. A probe with arguments is defined for a moment, because the kernel
/// decides where its fields are. `tracing_dir`: the root of tracefs, instead of searching.
///
/// # Errors
/// As for registering the event.
pub fn format_of(request: &EventRequest, tracing_dir: Option<&Path>) -> Result<Option<Format>, MonitorError> {
    match &request.what {
        What::Tracepoint(name) => Tracefs::find(tracing_dir)?.format(name).map(Some),
        What::Probe(probe) => {
            prepare(probe, false, tracing_dir).map(|prepared| Some(prepared.format.clone()))
        }
        What::Numbered { .. } | What::Breakpoint { .. } => Ok(None),
    }
}
