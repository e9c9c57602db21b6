//! How far a starting perf-agent has come.

use std::fs;
use std::path::Path;

/// Whether a perf-agent has its sampler. Its events are the last things that a capture opens. From the beginning each
/// CPU has an event for new mappings, so one more event belongs to the sampler. False if the process has ended.
#[must_use]
pub fn has_sampler(agent: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{agent}/fd")) else { return false };
    let is_event =
        |path: &Path| fs::read_link(path).is_ok_and(|target| target == Path::new("anon_inode:[perf_event]"));
    let events = descriptors.flatten().filter(|descriptor| is_event(&descriptor.path())).count();
    fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|list| events > length(&list))
}

/// The number of CPUs in a list such as `0-3,5`.
fn length(list: &str) -> usize {
    let number = |text: &str| text.parse().unwrap_or(0);
    let of_range = |range: &str| match range.split_once('-') {
        Some((first, last)) => number(last) - number(first) + 1,
        None => 1,
    };
    list.trim().split(',').map(of_range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_list_are_counted() {
        assert_eq!(["0", "0-3", "0-3,5,8-9\n"].map(length), [1, 4, 7]);
    }

    #[test]
    fn a_process_without_events_has_no_sampler() {
        assert!(!has_sampler(std::process::id()) && !has_sampler(u32::MAX));
    }
}
