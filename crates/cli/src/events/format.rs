//! `events format`: the fields of a tracepoint.

use std::process::ExitCode;

use ::events::monitor::{Field, Tracefs};
use serde_json::json;

use super::failure::failed;
use crate::exit_status::ExitStatuses;
use crate::listing;

/// Prints the fields.
pub fn run(name: &str, as_json: bool, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let name = name.strip_prefix("tracepoint:").or_else(|| name.strip_prefix("tp:")).unwrap_or(name);
    let format = match Tracefs::find(None).and_then(|tracefs| tracefs.format(name)) {
        Ok(format) => format,
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
