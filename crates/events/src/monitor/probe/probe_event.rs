//! A probe as an event at which programs of BPF run.
//!
//! Such a program runs once for each hit, whatever the CPU, and also while the event is disabled; so one event is attached to. Of processes
//! only, the probe is a definition in tracefs, because events of it are inherited: their threads and children hit it, and no other process
//! pays for it. Not here: the program, and the choice of the processes within it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_abi::EventAttr;

use super::inherited::Children;
use super::prepared::{Prepared, prepare};
use super::probe_spec::Probe;
use crate::monitor::error::MonitorError;
use crate::monitor::opening::{ROUNDS, open_one};
use crate::monitor::place::{Place, PlaceKind, threads};

/// A probe that processes hit. It is gone when this is dropped.
#[derive(Debug)]
pub struct ProbeEvent {
    // Dropped before the definition: the kernel removes none that has events.
    fds: Vec<OwnedFd>,
    children: Children,
    prepared: Prepared,
    attr: EventAttr,
    known: BTreeSet<u32>,
    of_all_processes: bool,
}

impl ProbeEvent {
    /// Opens it in all processes.
    ///
    /// # Errors
    /// [`MonitorError`]: there is no such place, or the kernel refuses the probe.
    pub fn of_system(probe: &Probe) -> Result<Self, MonitorError> {
        let prepared = prepare(probe, false, None)?;
        let mut event = Self::of(prepared, true);
        event.open(&PlaceKind::System)?;
        Ok(event)
    }

    /// Opens it in the processes that `living` tells, which is asked again until no thread is new, and in what they start. In all processes where tracefs cannot
    /// be used, see [`is_of_all_processes`](Self::is_of_all_processes).
    ///
    /// # Errors
    /// As [`of_system`](Self::of_system); [`MonitorError::NoSuchProcess`] if all have ended.
    pub fn of_processes(probe: &Probe, living: impl Fn() -> Vec<u32>) -> Result<Self, MonitorError> {
        // Functions of the kernel belong to no process.
        if probe.is_of_kernel() {
            return Self::of_system(probe);
        }
        let prepared = match prepare(probe, true, None) {
            Ok(prepared) => prepared,
            Err(refusal) => return Self::of_system(probe).map_err(|_| refusal),
        };
        let mut event = Self::of(prepared, false);
        // An event that is inherited must not have the program: since its children get it too, the end of one detaches it from the probe.
        event.open(&PlaceKind::Thread(std::process::id()))?;
        let mut pids = living();
        for _ in 0..ROUNDS {
            if !event.add(&pids)? {
                break;
            }
            pids = living();
        }
        if event.fds.len() == 1 {
            let number = pids.first().copied().unwrap_or(0);
            return Err(MonitorError::NoSuchProcess { what: "process", number });
        }
        Ok(event)
    }

    fn of(prepared: Prepared, of_all_processes: bool) -> Self {
        let mut attr = EventAttr { disabled: true, ..EventAttr::default() };
        prepared.apply(&mut attr);
        Self {
            fds: Vec::new(),
            children: Children::default(),
            prepared,
            attr,
            known: BTreeSet::new(),
            of_all_processes,
        }
    }

    /// Opens it in further processes, and in what they start. Whether there was a thread that did not have it.
    ///
    /// # Errors
    /// [`MonitorError::Open`]. Threads that have ended are left out.
    pub fn add(&mut self, pids: &[u32]) -> Result<bool, MonitorError> {
        let mut is_new = false;
        if self.of_all_processes {
            return Ok(is_new);
        }
        for tid in pids.iter().flat_map(|pid| threads(*pid).unwrap_or_default()) {
            if !self.known.insert(tid) {
                continue;
            }
            match self.children.open_inherited(&self.attr, &self.prepared.name(), tid) {
                Ok(event) => {
                    self.fds.push(event);
                    is_new = true;
                }
                Err(error) if error.is_end_of_thread() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_new)
    }

    /// One of these processes has started another one, which has inherited the event. To be told for each: some kernels take the probe out of it otherwise,
    /// when another one ends.
    ///
    /// # Errors
    /// [`MonitorError::Open`]. A process that has ended is left out.
    pub fn child_begun(&mut self, pid: u32) -> Result<(), MonitorError> {
        match self.of_all_processes {
            true => Ok(()),
            false => self.children.begun(&self.attr, &self.prepared.name(), pid),
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: u32) {
        self.children.ended(pid);
    }

    /// The number of processes that a target started and that may lose the probe before they end, because there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.children.left_out()
    }

    fn open(&mut self, kind: &PlaceKind) -> Result<(), MonitorError> {
        let place = Place { source: 0, kind: kind.clone() };
        let cpu = match kind {
            PlaceKind::Thread(_) => None,
            _ => Some(crate::online_cpus().ok().and_then(|cpus| cpus.first().copied()).unwrap_or(0)),
        };
        self.fds.push(open_one(&self.attr, &self.prepared.name(), &place, cpu, None)?);
        Ok(())
    }

    /// The event to attach a program to.
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.fds.first().map(AsFd::as_fd)
    }

    /// Whether processes other than those that were asked for hit the probe too. They pay for it.
    #[must_use]
    pub fn is_of_all_processes(&self) -> bool {
        self.of_all_processes
    }
}
