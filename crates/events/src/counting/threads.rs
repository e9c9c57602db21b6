//! Counters on all threads of processes, on all threads that they start later, and on their children.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use sys::perf;

use super::group::{CounterSlot, Opened, Plan, switch_all};
use super::reading::Sum;
use super::{CounterSpec, Reading, Start};
use crate::Error;

/// Time to find a moment without new threads. An attempt takes some microseconds per thread and event.
const SETTLE: Duration = Duration::from_millis(300);

/// Counters on all threads of some processes, inherited by all threads and processes that they start.
///
/// A thread that starts while the counters are opened may or may not inherit them, and neither can be observed. The
/// threads are therefore listed before and after; if there is a new one, all counters are opened again. This loses
/// nothing if counting [starts](Start) later. For a target that starts threads without pause, the new threads of the
/// last attempt are in [`uncounted`](Self::uncounted).
#[derive(Debug)]
pub struct ThreadCounters {
    plan: Plan,
    threads: Vec<Opened>,
    uncounted: u64,
    inheritance: u64,
}

impl ThreadCounters {
    /// Opens the events on every thread of the processes. Ended processes and threads are left out.
    #[must_use]
    pub fn open(specs: &[CounterSpec], pids: &[u32], start: Start) -> Self {
        Self::open_with(specs, pids, perf::INHERIT, start, SETTLE, threads_of)
    }

    /// The same without the children of the processes. Needs Linux 5.13.
    #[must_use]
    pub fn open_without_children(specs: &[CounterSpec], pids: &[u32], start: Start) -> Self {
        Self::open_with(specs, pids, perf::INHERIT | perf::INHERIT_THREAD, start, SETTLE, threads_of)
    }

    fn open_with(
        specs: &[CounterSpec],
        pids: &[u32],
        inheritance: u64,
        start: Start,
        settle: Duration,
        mut list: impl FnMut(u32) -> io::Result<BTreeSet<u32>>,
    ) -> Self {
        let probe = CounterSlot { pid: 0, cpu: -1 };
        let plan = Plan::new(specs, inheritance, start, probe);
        let mut counters = Self { plan, threads: Vec::new(), uncounted: 0, inheritance };
        let begun = Instant::now();
        loop {
            let before = Threads::list(pids, &mut list);
            counters.open_threads(&before);
            let after = Threads::list(pids, &mut list);
            let unknown = after.tids.difference(&before.tids).count();
            if unknown == 0 || begun.elapsed() >= settle {
                counters.uncounted += (unknown + after.unlisted) as u64;
                return counters;
            }
        }
    }

    fn open_threads(&mut self, threads: &Threads) {
        self.uncounted = 0;
        self.threads.clear();
        for &tid in &threads.tids {
            let Ok(pid) = i32::try_from(tid) else { continue };
            // The error says that the thread has ended.
            if let Ok(opened) = self.plan.open(CounterSlot { pid, cpu: -1 }) {
                self.threads.push(opened);
            }
        }
        let mut available = vec![false; self.plan.specs.len()];
        for opened in &self.threads {
            available.iter_mut().zip(opened.opened()).for_each(|(available, opened)| *available |= opened);
        }
        self.uncounted = self.threads.iter().filter(|opened| !opened.has_all(&available)).count() as u64;
    }

    /// Counts on the threads of one more process too, from now on.
    ///
    /// # Errors
    /// As [`Self::enable`].
    pub fn add(&mut self, pid: u32) -> Result<(), Error> {
        let (specs, inheritance) = (&self.plan.specs, self.inheritance);
        let added = Self::open_with(specs, &[pid], inheritance, Start::Disabled, SETTLE, threads_of);
        let enabled = added.enable();
        self.uncounted += added.uncounted;
        self.threads.extend(added.threads);
        enabled
    }

    /// Starts counting on all threads and their descendants.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the other counters are started nevertheless.
    pub fn enable(&self) -> Result<(), Error> {
        switch_all(self.threads.iter(), "enable", perf::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the other counters are stopped nevertheless.
    pub fn disable(&self) -> Result<(), Error> {
        switch_all(self.threads.iter(), "disable", perf::disable)
    }

    /// The counts so far, in the order of the events, including those of ended threads.
    #[must_use]
    pub fn read(&self) -> Vec<Reading> {
        let events = self.plan.specs.iter().enumerate();
        events
            .map(|(number, spec)| {
                let mut sum = Sum::default();
                sum.add(self.threads.iter().filter_map(|opened| opened.fd(number)));
                sum.reading(spec, self.plan.refused[number].as_deref())
            })
            .collect()
    }

    /// Threads on which an event was opened, without the threads that they started later.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Threads that may lack some or all events. A process whose threads could not be listed counts as one.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }
}

/// The threads of some processes.
struct Threads {
    tids: BTreeSet<u32>,
    /// Processes with an unreadable list of threads. Only their first thread is known.
    unlisted: usize,
}

impl Threads {
    fn list(pids: &[u32], list: &mut impl FnMut(u32) -> io::Result<BTreeSet<u32>>) -> Self {
        let mut threads = Self { tids: BTreeSet::new(), unlisted: 0 };
        for &pid in pids {
            match list(pid) {
                Ok(tids) => threads.tids.extend(tids),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => {
                    threads.tids.insert(pid);
                    threads.unlisted += 1;
                }
            }
        }
        threads
    }
}

fn threads_of(pid: u32) -> io::Result<BTreeSet<u32>> {
    let mut tids = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        tids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(tids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::CountOutcome;

    #[test]
    fn new_threads_cause_another_attempt_and_too_many_are_counted() {
        let specs = CounterSpec::parse_list("page-faults").unwrap();
        let own = std::process::id();
        let mut listings = 0;
        let settled =
            ThreadCounters::open_with(&specs, &[own], perf::INHERIT, Start::Disabled, SETTLE, |pid| {
                listings += 1;
                Ok(if listings < 4 { (pid..pid + listings).collect() } else { BTreeSet::from([pid]) })
            });
        assert_eq!((listings, settled.uncounted()), (4, 0));
        let mut crowd = 0;
        let restless = ThreadCounters::open_with(
            &specs,
            &[own],
            perf::INHERIT,
            Start::Disabled,
            Duration::ZERO,
            |pid| {
                crowd += 1;
                Ok((pid..pid + crowd).collect())
            },
        );
        assert_eq!((crowd, restless.uncounted()), (2, 1));
        let denied = |_| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let hidden =
            ThreadCounters::open_with(&specs, &[own], perf::INHERIT, Start::Disabled, SETTLE, denied);
        assert_eq!(hidden.uncounted(), 1);
    }

    #[test]
    fn an_ended_process_counts_nothing() {
        let specs = CounterSpec::parse_list("page-faults").unwrap();
        let counters = ThreadCounters::open(&specs, &[0x7fff_fff0], Start::Enabled);
        assert_eq!((counters.threads(), counters.uncounted()), (0, 0));
        let reading = &counters.read()[0];
        assert!(matches!(
            reading.outcome,
            CountOutcome::NotAvailable { .. } | CountOutcome::Counted { running_ns: 0, .. }
        ));
        counters.enable().unwrap();
    }
}
