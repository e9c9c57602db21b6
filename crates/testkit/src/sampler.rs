//! How far a starting perf-agent, or another program that opens perf events, has come.

use std::fs;
use std::path::Path;

/// Whether a perf-agent has its sampler. Its events are the last things that a capture opens. From the beginning each
/// CPU has an event for new mappings, so one more event belongs to the sampler. False if the process has ended.
#[must_use]
pub fn has_sampler(agent: u32) -> bool {
    let events = events_of(agent);
    fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|list| events > length(&list))
}

/// System calls in which a program waits for records or for time: `poll`, `epoll_wait`, `nanosleep` and their kin.
const WAITS: &[&str] = if cfg!(target_arch = "aarch64") {
    &["22", "73", "101", "115", "441"]
} else {
    &["7", "35", "230", "232", "271", "281", "441"]
};

/// Whether a program has opened at least `least` perf events and waits for them. Programs enable their events before they wait.
/// False if it has ended.
#[must_use]
pub fn waits_for_events(pid: u32, least: usize) -> bool {
    let is_waiting = || match fs::read_to_string(format!("/proc/{pid}/syscall")) {
        Ok(call) => call.split(' ').next().is_some_and(|number| WAITS.contains(&number)),
        // A user without rights sees the state alone.
        Err(_) => fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") S ")),
    };
    events_of(pid) >= least && is_waiting()
}

/// The number of perf events that a process has open.
fn events_of(pid: u32) -> usize {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let is_event =
        |path: &Path| fs::read_link(path).is_ok_and(|target| target == Path::new("anon_inode:[perf_event]"));
    descriptors.flatten().filter(|descriptor| is_event(&descriptor.path())).count()
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
        assert!(!waits_for_events(std::process::id(), 1) && !waits_for_events(u32::MAX, 0));
    }

    #[test]
    fn a_program_that_sleeps_waits_and_one_that_computes_does_not() {
        let [sleeper, burner] = [crate::Process::asleep(), crate::Process::computing()];
        crate::until("it sleeps", || waits_for_events(sleeper.pid(), 0));
        assert!(!waits_for_events(sleeper.pid(), 1) && !waits_for_events(burner.pid(), 0));
    }
}
