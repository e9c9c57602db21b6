//! Counters on all threads of processes, and on all that these start from then on.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use sys::perf;

use super::group::{Opened, Place, Plan, switch_all};
use super::reading::Sum;
use super::{CounterSpec, Reading, Start};
use crate::Error;

/// How long to try to find a moment in which no thread is born. An attempt takes some microseconds per thread and
/// event.
const SETTLE: Duration = Duration::from_millis(300);

/// Counters on all threads that some processes have, inherited by all threads and processes that these start.
///
/// A thread that is born while the counters are opened either inherits them or does not, and nobody can see which. So
/// threads are listed before and after; if there is a new one all is opened again. Nothing is lost by that if counting
/// [starts](Start) later. A target that never stops making threads is left after some attempts with the new threads of
/// the last one in [`uncounted`](Self::uncounted).
#[derive(Debug)]
pub struct ThreadCounters {
    plan: Plan,
    threads: Vec<Opened>,
    uncounted: u64,
}

impl ThreadCounters {
    /// Opens the events on every thread of the processes. Processes and threads that have ended are left out.
    #[must_use]
    pub fn open(specs: &[CounterSpec], pids: &[u32], start: Start) -> Self {
        Self::open_with(specs, pids, start, SETTLE, threads_of)
    }

    fn open_with(
        specs: &[CounterSpec],
        pids: &[u32],
        start: Start,
        settle: Duration,
        mut list: impl FnMut(u32) -> io::Result<BTreeSet<u32>>,
    ) -> Self {
        let probe = Place { pid: 0, cpu: -1 };
        let mut counters =
            Self { plan: Plan::new(specs, perf::INHERIT, start, probe), threads: Vec::new(), uncounted: 0 };
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
            if let Ok(opened) = self.plan.open(Place { pid, cpu: -1 }) {
                self.threads.push(opened);
            }
        }
        let mut available = vec![false; self.plan.specs.len()];
        for opened in &self.threads {
            available.iter_mut().zip(opened.opened()).for_each(|(available, opened)| *available |= opened);
        }
        self.uncounted = self.threads.iter().filter(|opened| !opened.has_all(&available)).count() as u64;
    }

    /// Starts counting, on all threads and their descendants.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the others are started all the same.
    pub fn enable(&self) -> Result<(), Error> {
        switch_all(self.threads.iter(), "enable", perf::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the others are stopped all the same.
    pub fn disable(&self) -> Result<(), Error> {
        switch_all(self.threads.iter(), "disable", perf::disable)
    }

    /// What was counted so far, in the order of the events, including what threads counted that have ended.
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

    /// Threads on which an event was opened; those that they start are not among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Threads, or whole processes whose threads could not be listed, of which some or all events may be missing.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }
}

/// The threads of some processes.
struct Threads {
    tids: BTreeSet<u32>,
    /// Processes of which only the first thread is known.
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
    use crate::counting::Outcome;

    #[test]
    fn new_threads_start_it_over_and_a_crowd_of_them_is_told() {
        let specs = CounterSpec::parse_list("page-faults").unwrap();
        let own = std::process::id();
        let mut listings = 0;
        let settled = ThreadCounters::open_with(&specs, &[own], Start::Disabled, SETTLE, |pid| {
            listings += 1;
            Ok(if listings < 4 { (pid..pid + listings).collect() } else { BTreeSet::from([pid]) })
        });
        assert_eq!((listings, settled.uncounted()), (4, 0));
        let mut crowd = 0;
        let restless = ThreadCounters::open_with(&specs, &[own], Start::Disabled, Duration::ZERO, |pid| {
            crowd += 1;
            Ok((pid..pid + crowd).collect())
        });
        assert_eq!((crowd, restless.uncounted()), (2, 1));
        let denied = |_| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let hidden = ThreadCounters::open_with(&specs, &[own], Start::Disabled, SETTLE, denied);
        assert_eq!(hidden.uncounted(), 1);
    }

    #[test]
    fn a_process_that_is_gone_counts_nothing() {
        let specs = CounterSpec::parse_list("page-faults").unwrap();
        let counters = ThreadCounters::open(&specs, &[0x7fff_fff0], Start::Enabled);
        assert_eq!((counters.threads(), counters.uncounted()), (0, 0));
        let reading = &counters.read()[0];
        assert!(matches!(
            reading.outcome,
            Outcome::NotAvailable { .. } | Outcome::Counted { running_ns: 0, .. }
        ));
        counters.enable().unwrap();
    }
}
