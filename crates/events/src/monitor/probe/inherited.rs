//! Events of a probe that children inherit.
//!
//! When the kernel switches from a thread to another one that has inherited the same events, it exchanges the events of the two instead of taking
//! one off the CPU and putting the other on. An event of a probe is of the memory of one process, though: if a child ends that has got the event of
//! another process, the kernel takes the breakpoint out of that other process, which lives on (`perf record` loses its events there too). Events that
//! have values in their samples are not exchanged; inherited events can have them since Linux 6.13. Before, each child needs an event of its own,
//! which is not inherited: the breakpoint stays as long as one is left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use perf_abi::EventAttr;
use perf_abi::numbers::sample;

use crate::monitor::error::MonitorError;
use crate::monitor::opening::open_one;
use crate::monitor::place::{Place, PlaceKind};

/// Children that have an event of their own.
const MAX_CHILDREN: usize = 1024;

/// The children of processes with inherited events.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// The kernel exchanges inherited events.
    exchanges: bool,
    own: BTreeMap<u32, OwnedFd>,
    left_out: u64,
}

impl Children {
    /// Opens an event of a thread that what it starts inherits.
    ///
    /// # Errors
    /// [`MonitorError::Open`].
    pub(super) fn open_inherited(
        &mut self,
        attr: &EventAttr,
        name: &str,
        tid: u32,
    ) -> Result<OwnedFd, MonitorError> {
        let place = Place { source: 0, kind: PlaceKind::Thread(tid) };
        let attr = EventAttr { inherit: true, ..attr.clone() };
        if !self.exchanges {
            let stays =
                EventAttr { sample_type: attr.sample_type | sample::READ | sample::TID, ..attr.clone() };
            match open_one(&stays, name, &place, None, None) {
                Err(error) if !error.is_end_of_thread() => {}
                result => return result,
            }
        }
        let opened = open_one(&attr, name, &place, None, None)?;
        self.exchanges = true;
        Ok(opened)
    }

    /// Whether the kernel exchanges inherited events.
    pub(super) fn exchanges(&self) -> bool {
        self.exchanges
    }

    /// A process has begun, as a child of one with inherited events. Nothing is to be done where the kernel does not exchange them.
    ///
    /// # Errors
    /// [`MonitorError::Open`]. A process that has ended is left out.
    pub(super) fn begun(&mut self, attr: &EventAttr, name: &str, pid: u32) -> Result<(), MonitorError> {
        if !self.exchanges || self.own.contains_key(&pid) {
            return Ok(());
        }
        if self.own.len() == MAX_CHILDREN {
            self.left_out += 1;
            return Ok(());
        }
        let place = Place { source: 0, kind: PlaceKind::Thread(pid) };
        match open_one(attr, name, &place, None, None) {
            Ok(event) => _ = self.own.insert(pid, event),
            Err(error) if error.is_end_of_thread() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, pid: u32) {
        self.own.remove(&pid);
    }

    /// The number of children that got no event of their own although they should have one.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
