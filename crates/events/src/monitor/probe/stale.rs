//! Removes probes whose process has ended without removing them, as after SIGKILL.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use super::definition::{GROUP, is_busy, remove};
use super::owner::start_time;
use crate::monitor::error::MonitorError;
use crate::monitor::tracefs::Tracefs;

/// The files that list definitions.
const LISTS: [&str; 2] = ["uprobe_events", "kprobe_events"];
/// How long the kernel may still close the events of a process that has ended.
const CLOSING: Duration = Duration::from_millis(100);
/// Bytes that are read of a list.
const MAX_LIST: u64 = 16 << 20;

/// Removes the definitions of the group `perf_agent` whose process does not live any more, and returns their names. Those of other groups, of
/// living processes, and those that are in use stay.
///
/// # Errors
/// [`MonitorError::Read`] if a list of probes is there and cannot be read, [`MonitorError::Probe`] for the first one that cannot be removed, after all
/// were tried.
pub fn remove_stale(tracefs: &Tracefs) -> Result<Vec<String>, MonitorError> {
    let (mut removed, mut failed) = (Vec::new(), None);
    for list in LISTS.map(|list| tracefs.root().join(list)).into_iter().filter(|list| list.exists()) {
        for event in stale_in(&read(&list)?, |pid, start| start_time(pid) == Some(start)) {
            match remove(&list, &event, CLOSING) {
                Ok(()) => removed.push(format!("{GROUP}:{event}")),
                // Another process removed it meanwhile, or uses it: then its process is in another PID namespace.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound || is_busy(&error) => {}
                Err(error) => {
                    failed.get_or_insert(MonitorError::Probe {
                        event: format!("{GROUP}:{event}"),
                        attempt: "remove",
                        reason: error.to_string(),
                    });
                }
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}

fn read(list: &Path) -> Result<String, MonitorError> {
    let mut text = Vec::new();
    let read = fs::File::open(list).and_then(|file| file.take(MAX_LIST).read_to_end(&mut text));
    read.map_err(|source| MonitorError::Read { path: list.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The names of events in a list of definitions whose process does not live, each once.
fn stale_in(list: &str, lives: impl Fn(u32, u64) -> bool) -> Vec<String> {
    let mut stale: Vec<String> = Vec::new();
    for line in list.lines() {
        let Some((_, name)) = line.split_ascii_whitespace().next().and_then(|head| head.split_once(':'))
        else {
            continue;
        };
        let Some(event) = name.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) else { continue };
        let is_stale = owner(event).is_some_and(|(pid, start)| !lives(pid, start));
        if is_stale && !stale.iter().any(|known| known == event) {
            stale.push(event.to_owned());
        }
    }
    stale
}

/// Process and start of `KIND_PID_START_NUMBER`.
fn owner(event: &str) -> Option<(u32, u64)> {
    let mut parts = event.split('_');
    let kind = parts.next()?;
    let (pid, start, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let is_ours = ["kprobe", "kretprobe", "uprobe", "uretprobe", "usdt"].contains(&kind);
    (is_ours && number.parse::<u64>().is_ok() && parts.next().is_none()).then_some((pid, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
p:perf_agent/uprobe_10_500_0 /bin/a:0x0000000000000005
p:perf_agent/usdt_11_500_0 /bin/a:0x0000000000000005
p:perf_agent/usdt_11_500_0 /bin/a:0x0000000000000006 arg1=%di
r16:perf_agent/kretprobe_10_501_2 do_exit
p:perf_agent/uprobe_12_500_7 /bin/a:0x5
p:perf_agent/mine /bin/a:0x5
p:perf_agent/uprobe_13_500 /bin/a:0x5
p:perf_agent/uprobe_13_500_1_2 /bin/a:0x5
p:perf_agent_x/uprobe_13_500_1 /bin/a:0x5
p:probe_a/uprobe_13_500_1 /bin/a:0x5
broken
";

    #[test]
    fn only_what_a_dead_process_of_ours_has_left_is_stale() {
        let lives = |pid, start| (pid, start) == (12, 500) || (pid, start) == (10, 500);
        assert_eq!(stale_in(LIST, lives), ["usdt_11_500_0", "kretprobe_10_501_2"]);
        assert!(stale_in(LIST, |_, _| true).is_empty());
    }

    #[test]
    fn a_living_process_is_recognized_by_its_start() {
        let pid = std::process::id();
        let start = start_time(pid).unwrap();
        assert!(start > 0 && start_time(u32::MAX).is_none());
        let list =
            format!("p:perf_agent/uprobe_{pid}_{start}_0 x\np:perf_agent/uprobe_{pid}_{}_0 x\n", start - 1);
        assert_eq!(
            stale_in(&list, |pid, start| start_time(pid) == Some(start)),
            [format!("uprobe_{pid}_{}_0", start - 1)]
        );
    }
}
