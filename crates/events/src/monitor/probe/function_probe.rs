//! A probe of several functions at once, as one event at which a program of BPF runs.
//!
//! As [`ProbeEvent`](super::ProbeEvent), with places that the caller has found: the kernel inserts breakpoints in the processes that were asked for and in what
//! they start, and nowhere else. Without tracefs there is none: a probe in all processes of the machine is too dear for functions that are called this often.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_abi::EventAttr;

use super::function_place::FunctionPlace;
use super::inherited::Children;
use super::prepared::{Prepared, prepare_functions};
use crate::monitor::error::MonitorError;
use crate::monitor::opening::{ROUNDS, open_one};
use crate::monitor::place::{Place, PlaceKind, threads};

/// Such a probe, known to the kernel and open nowhere yet. It is gone when this is dropped.
#[derive(Debug)]
pub struct FunctionProbe {
    // Dropped before the definition: the kernel removes none that has events.
    open: Option<Open>,
    prepared: Prepared,
    attr: EventAttr,
}

/// Where it is open.
#[derive(Debug, Default)]
struct Open {
    /// The first one is the event of the program, which no thread inherits.
    fds: Vec<OwnedFd>,
    known: BTreeSet<u32>,
    children: Children,
}

impl FunctionProbe {
    /// Makes the kernel know the probe. `name`: what messages call it. `is_return`: by return probes at these entries. Only for functions that no exception leaves:
    /// a return probe replaces the return address, across which no unwinder leads.
    ///
    /// # Errors
    /// [`MonitorError`]: there is no tracefs, or the kernel refuses a place.
    pub fn define(name: &str, places: &[FunctionPlace], is_return: bool) -> Result<Self, MonitorError> {
        let prepared = prepare_functions(name, places, is_return)?;
        let mut attr = EventAttr { disabled: true, ..EventAttr::default() };
        prepared.apply(&mut attr);
        Ok(Self { open: None, prepared, attr })
    }

    /// Inserts the breakpoints into the processes that `living` tells, which is asked again until no thread is new, and into what they start.
    ///
    /// # Errors
    /// [`MonitorError::Open`]; [`MonitorError::NoSuchProcess`] if all have ended.
    pub fn open(&mut self, living: &dyn Fn() -> Vec<u32>) -> Result<(), MonitorError> {
        let mut pids = living();
        for _ in 0..ROUNDS {
            if !self.add(&pids)? {
                break;
            }
            pids = living();
        }
        if self.open.is_none() {
            let number = pids.first().copied().unwrap_or(0);
            return Err(MonitorError::NoSuchProcess { what: "process", number });
        }
        Ok(())
    }

    /// Inserts them into further processes, and into what they start. Whether there was a thread that did not have them.
    ///
    /// # Errors
    /// [`MonitorError::Open`]. Threads that have ended are left out.
    pub fn add(&mut self, pids: &[u32]) -> Result<bool, MonitorError> {
        let mut is_new = false;
        for tid in pids.iter().flat_map(|pid| threads(*pid).unwrap_or_default()) {
            if self.open.as_ref().is_some_and(|open| open.known.contains(&tid)) {
                continue;
            }
            match self.add_thread(tid) {
                Ok(()) => is_new = true,
                Err(error) if error.is_end_of_thread() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_new)
    }

    fn add_thread(&mut self, tid: u32) -> Result<(), MonitorError> {
        if self.open.is_none() {
            // An event that is inherited must not have the program: since its children get it too, the end of one detaches it from the probe.
            let place = Place { source: 0, kind: PlaceKind::Thread(tid) };
            let fds = vec![open_one(&self.attr, &self.prepared.name(), &place, None, None)?];
            self.open = Some(Open { fds, ..Open::default() });
        }
        if let Some(open) = &mut self.open {
            let inherited = open.children.open_inherited(&self.attr, &self.prepared.name(), tid)?;
            open.fds.push(inherited);
            open.known.insert(tid);
        }
        Ok(())
    }

    /// Whether the kernel may take the breakpoints out of a process that has inherited them when another one ends, as before Linux 6.13.
    #[must_use]
    pub fn may_lose_children(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.children.exchanges())
    }

    /// Takes the breakpoints out again. The program that was attached is detached.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// The event to attach a program to, while it is open.
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().and_then(|open| open.fds.first()).map(AsFd::as_fd)
    }
}
