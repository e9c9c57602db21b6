//! `events format`: the fields of a tracepoint or probe.

use std::process::ExitCode;

use ::events::monitor::{Field, format_of, parse_event};
use serde_json::json;

use super::failure::{failed, tell};
use crate::exit_status::ExitStatuses;
use crate::{listing, messages};

/// Prints the fields.
pub fn run(name: &str, as_json: bool, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let request = match parse_event(name) {
        Ok(request) => request,
        Err(error) => {
            tell(&error.to_string());
            return Ok(ExitCode::from(statuses.failed));
        }
    };
    let name = request.name();
    let format = match format_of(&request, None) {
        Ok(Some(format)) => format,
        Ok(None) => {
            messages::error(
                &format!("{name} has no fields of its own"),
                Some("tracepoints and probes have some; `perf-agent events list` shows tracepoints"),
            );
            return Ok(ExitCode::from(statuses.failed));
        }
        Err(error) => return Ok(failed(&error, statuses)),
    };
    let text = if as_json {
        let field = |field: &Field| {
            json!({
                "name": field.name, "offset": field.offset, "size": field.size, "kind": field.kind.name(),
                "signed": field.signed, "type": field.type_text, "common": field.common,
            })
        };
        let fields: Vec<_> = format.fields.iter().map(field).collect();
        let whole = json!({ "name": name, "id": format.id, "fields": fields });
        vec![serde_json::to_string_pretty(&whole)?]
    } else {
        let head = format!("{:>6}  {:>4}  {:<14}  {:<24}  type", "offset", "size", "kind", "name");
        let line = |field: &Field| {
            let kind = field.kind.name();
            format!(
                "{:>6}  {:>4}  {kind:<14}  {:<24}  {}",
                field.offset, field.size, field.name, field.type_text
            )
        };
        std::iter::once(head).chain(format.own_fields().map(line)).collect()
    };
    listing::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
