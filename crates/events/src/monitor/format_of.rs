//! The fields of an event before it is registered.

use std::path::Path;

use tracepoints::Format;

use super::error::MonitorError;
use super::request::EventRequest;
use super::resolved::Resolved;

/// The fields that records of an event have; none if it is neither a tracepoint nor a probe. A probe with arguments is defined for a moment, because the kernel
/// decides where its fields are. `tracing_dir`: the root of tracefs, instead of searching.
///
/// # Errors
/// As for registering the event.
pub fn format_of(request: &EventRequest, tracing_dir: Option<&Path>) -> Result<Option<Format>, MonitorError> {
    Ok(Resolved::of(request, false, tracing_dir)?.format)
}
