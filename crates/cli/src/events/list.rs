//! `events list`: tracepoints, and the events of the processor, of other event sources and of the kernel.

use std::process::ExitCode;

use ::events::monitor::{Tracefs, is_available, named_events, pmu_events};
use serde_json::json;

use crate::{listing, messages};

/// A line of the list.
struct Line {
    name: String,
    /// Another name of it.
    also: Option<&'static str>,
    set: &'static str,
    available: bool,
}

/// Prints the list.
pub fn run(glob: Option<&str>, as_json: bool) -> anyhow::Result<ExitCode> {
    let wanted = |name: &str| glob.is_none_or(|glob| matches(glob, name));
    let mut lines: Vec<Line> = Vec::new();
    for event in named_events()
        .into_iter()
        .chain(pmu_events())
        .filter(|event| wanted(&event.name) || event.also.is_some_and(wanted))
    {
        let available = is_available(event.kind, event.config, event.further);
        lines.push(Line { name: event.name, also: event.also, set: event.set, available });
    }
    match Tracefs::find(None).and_then(|tracefs| tracefs.names()) {
        Ok(names) => lines.extend(names.into_iter().filter(|name| wanted(name)).map(|name| Line {
            name,
            also: None,
            set: "tracepoint",
            available: true,
        })),
        Err(error) => messages::warning(&format!("tracepoints are not listed: {error}"), None),
    }
    let text: Vec<String> = if as_json {
        let array: Vec<_> = lines
            .iter()
            .map(|line| json!({ "name": line.name, "also": line.also, "set": line.set, "available": line.available }))
            .collect();
        vec![serde_json::to_string_pretty(&array)?]
    } else {
        let names = |line: &Line| match line.also {
            Some(also) => format!("{} or {also}", line.name),
            None => line.name.clone(),
        };
        let width = lines.iter().map(|line| names(line).len()).max().unwrap_or(0);
        let note = |line: &Line| if line.available { "" } else { "  not on this machine" };
        lines.iter().map(|line| format!("{:<width$}  {}{}", names(line), line.set, note(line))).collect()
    };
    listing::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a name matches: with `*` and `?` as a whole, without them as a part.
fn matches(glob: &str, name: &str) -> bool {
    if !glob.contains(['*', '?']) {
        return name.contains(glob);
    }
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    // Where the last `*` stands, and what it has taken so far.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&byte) if byte == b'?' || Some(&byte) == name.get(read) => (at, read) = (at + 1, read + 1),
            _ => match &mut star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, read) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    glob.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn names_match_as_in_a_shell_or_contain_the_word() {
        for glob in ["sched:*", "*switch", "sched:sched_switc?", "*:*_s*h", "sched_switch", "*", "s*d:*"] {
            assert!(matches(glob, "sched:sched_switch"), "{glob}");
        }
        for glob in ["sched", "sched:*x", "?", "*switc", "irq:*", ""] {
            assert_eq!(matches(glob, "sched:sched_switch"), matches!(glob, "sched" | ""), "{glob}");
        }
    }
}
