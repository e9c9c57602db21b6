//! Run-queue latency, computed by its definition from the scheduler's events as `perf script` prints them.

use std::collections::HashMap;

/// Waits and switches of the threads of interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// From becoming runnable to running, in ns, ascending.
    pub latencies_ns: Vec<u64>,
    /// Switches in a sleeping state.
    pub voluntary: u64,
    /// Switches while runnable.
    pub preempted: u64,
}

impl Waits {
    /// The percentile by nearest rank; nothing without a wait.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = (self.latencies_ns.len() as f64 * percent / 100.0).ceil() as usize;
        self.latencies_ns.get(rank.clamp(1, self.latencies_ns.len().max(1)) - 1).copied()
    }
}

#[derive(Clone, Copy, Default)]
struct Thread {
    runs: bool,
    runnable_since: Option<u64>,
}

/// Reads events in order of time; a thread is of interest by its name.
#[must_use]
pub fn read_events(text: &str, wanted: impl Fn(&str) -> bool) -> Waits {
    let (mut threads, mut waits) = (HashMap::<u32, Thread>::new(), Waits::default());
    for line in text.lines() {
        let Some((now, event, fields)) = split(line) else { continue };
        if event.starts_with("sched:sched_wakeup") {
            let Some((_, pid)) = named(fields, "comm=", " pid=") else { continue };
            let thread = threads.entry(pid).or_default();
            if !thread.runs && thread.runnable_since.is_none() {
                thread.runnable_since = Some(now);
            }
        } else if event == "sched:sched_switch" {
            let Some((leaves, enters)) = fields.split_once(" ==> ") else { continue };
            let (prev, next) =
                (named(leaves, "prev_comm=", " prev_pid="), named(enters, "next_comm=", " next_pid="));
            let (Some((prev_name, prev)), Some((next_name, next))) = (prev, next) else { continue };
            let state = leaves.rsplit_once("prev_state=").map_or("", |(_, state)| state);
            let runnable = state.starts_with('R');
            threads.insert(prev, Thread { runs: false, runnable_since: runnable.then_some(now) });
            if wanted(prev_name) {
                *(if runnable { &mut waits.preempted } else { &mut waits.voluntary }) += 1;
            }
            let since = threads.insert(next, Thread { runs: true, runnable_since: None });
            if let (true, Some(since)) = (wanted(next_name), since.and_then(|t| t.runnable_since)) {
                waits.latencies_ns.push(now.saturating_sub(since));
            }
        }
    }
    waits.latencies_ns.sort_unstable();
    waits
}

/// Splits `COMM TID SECONDS: EVENT: FIELDS`; COMM may contain blanks.
fn split(line: &str) -> Option<(u64, &str, &str)> {
    let at = line.find(" sched:")?;
    let (head, tail) = line.split_at(at);
    let (seconds, fraction) = head.trim_end().trim_end_matches(':').rsplit(' ').next()?.split_once('.')?;
    let fraction_ns = format!("{fraction:0<9}").parse::<u64>().ok()?;
    let (event, fields) = tail.trim_start().split_once(": ")?;
    Some((seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction_ns, event, fields.trim_end()))
}

fn named<'a>(fields: &'a str, comm: &str, pid: &str) -> Option<(&'a str, u32)> {
    let (_, rest) = fields.split_once(comm)?;
    let (name, rest) = rest.split_once(pid)?;
    Some((name, rest.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
 a b 7 10.000000100: sched:sched_wakeup: comm=hog one pid=8 prio=120 target_cpu=000\n\
 a b 7 10.000000200: sched:sched_wakeup: comm=hog one pid=8 prio=120 target_cpu=000\n\
 a b 7 10.000000400:       sched:sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=hog one next_pid=8 next_prio=120\n\
 hog one 8 10.000000450: sched:sched_wakeup: comm=hog one pid=8 prio=120 target_cpu=000\n\
 hog one 8 10.000000500: sched:sched_switch: prev_comm=hog one prev_pid=8 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=7 next_prio=120\n\
 a b 7 10.000001500: sched:sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=hog one next_pid=8 next_prio=120\n\
 hog one 8 10.000002000: sched:sched_switch: prev_comm=hog one prev_pid=8 prev_prio=120 prev_state=X ==> next_comm=a b next_pid=7 next_prio=120\n";

    #[test]
    fn latency_begins_with_the_first_wake_up_or_the_preemption() {
        let waits = read_events(TEXT, |name| name == "hog one");
        assert_eq!(waits, Waits { latencies_ns: vec![300, 1000], voluntary: 1, preempted: 1 });
        assert_eq!((waits.percentile_ns(50.0), waits.percentile_ns(100.0)), (Some(300), Some(1000)));
        assert_eq!(Waits::default().percentile_ns(50.0), None);
    }
}
