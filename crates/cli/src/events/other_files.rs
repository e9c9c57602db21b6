//! Probes of a file that the followed processes do not have at its path, as in a container: they are never hit.

use ::events::monitor::{EventName, OtherFile, processes_in, read_event};

use crate::messages;

/// Warns of each file that a followed process has at the path of a probe in place of the probed one.
pub fn warn<'a>(events: impl IntoIterator<Item = &'a str>, pids: &[u32], cgroups: &[String]) {
    let of_cgroups = cgroups.iter().flat_map(|cgroup| processes_in(cgroup));
    let pids: Vec<u32> = pids.iter().copied().chain(of_cgroups).collect();
    for text in events {
        let Ok(EventName::Probe(probe)) = read_event(text).map(|event| event.name) else { continue };
        // One warning for each probe, by the first process that has another file.
        if let Some(other) = OtherFile::of(&probe, &pids) {
            messages::warning(&other.message(&probe.name()), Some(&other.remedy()));
            // Each further probe would wait as long.
            if other == OtherFile::NoAnswer {
                break;
            }
        }
    }
}
