//! The newest records of an event, kept in rings that overwrite the oldest: what happened just before something is noticed.
//!
//! A [`FlightRecorder`] costs nothing but the kernel's writes until [`snapshot`](FlightRecorder::snapshot) is called, which copies what the rings have.
//! What was overwritten is gone and not counted; for every record, see [`monitor`](crate::monitor).
//!
//! ```no_run
//! use events::flight_recorder::FlightRecorder;
//! use events::monitor::Tracefs;
//! use perf_abi::EventAttr;
//! let switches = EventAttr::tracepoint(Tracefs::find(None)?.format("sched:sched_switch")?.id);
//! let recorder = FlightRecorder::open(&switches, None, 64)?;
//! // … until something is slow …
//! recorder.snapshot(|recorded| println!("{} ns on CPU {}: {:?}", recorded.time_ns, recorded.cpu, recorded.record.body))?;
//! # Ok::<(), events::monitor::MonitorError>(())
//! ```

use std::os::fd::{AsFd, OwnedFd};

use perf_abi::{EventAttr, Layout, Record};
use rustix::time::ClockId;
use sys::overwrite_ring::OverwriteRing;
use sys::perf;

use crate::monitor::MonitorError;
use crate::monitor::opening::{Common, is_gone, open_one};
use crate::monitor::place::{Place, PlaceKind};

const MAX_PAGES: usize = 1 << 16;

/// A record of a snapshot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded<'a> {
    /// ns of the monotonic clock.
    pub time_ns: u64,
    /// The CPU whose ring had it.
    pub cpu: u32,
    /// The record.
    pub record: Record<'a>,
}

/// An event with a ring on each CPU. It is closed when it is dropped.
#[derive(Debug)]
pub struct FlightRecorder {
    rings: Vec<CpuRing>,
    layout: Layout,
}

#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    // Unmapped before the event is closed.
    ring: OverwriteRing,
    event: OwnedFd,
}

impl FlightRecorder {
    /// Opens the event on all CPUs, of the whole system or of a thread and what it starts later, and starts it. `pages`: of each CPU's ring, rounded
    /// up to a power of two. What reading needs is added to a copy of the attribute.
    ///
    /// # Errors
    /// [`MonitorError`] if the attribute contradicts itself, or the event or its ring cannot be had. Nothing stays open then.
    pub fn open(attr: &EventAttr, tid: Option<u32>, pages: usize) -> Result<Self, MonitorError> {
        attr.check()?;
        let pages = pages.clamp(1, MAX_PAGES).next_power_of_two();
        let ring_bytes = pages.saturating_mul(sys::usage::page_size());
        let common = Common { clockid: ClockId::Monotonic as i32, ring_bytes, counts_lost: false };
        let mut attr = common.complete(attr.clone(), false);
        (attr.write_backward, attr.inherit) = (true, tid.is_some());
        let place = Place { source: 0, kind: tid.map_or(PlaceKind::System, PlaceKind::Thread) };
        let name = format!("type={}/config={:#x}", attr.kind, attr.config);
        let mut rings = Vec::new();
        for cpu in crate::online_cpus()? {
            let event = match open_one(&attr, &name, &place, Some(cpu), None) {
                Err(error) if is_gone(&error, &place, cpu) => continue,
                opened => opened?,
            };
            let ring = OverwriteRing::map(event.as_fd(), pages)
                .map_err(|source| MonitorError::RingMemory { pages, cpu, source })?;
            rings.push(CpuRing { cpu, ring, event });
        }
        if rings.is_empty() {
            return Err(match tid {
                Some(number) => MonitorError::NoSuchProcess { what: "thread", number },
                None => MonitorError::NoCpu,
            });
        }
        let recorder = Self { rings, layout: Layout::of(&attr) };
        recorder.switch(true)?;
        Ok(recorder)
    }

    /// Starts or stops recording; what the rings have stays.
    ///
    /// # Errors
    /// The kernel's first error; the other CPUs are switched nevertheless.
    pub fn switch(&self, on: bool) -> Result<(), MonitorError> {
        let switch = if on { perf::enable } else { perf::disable };
        let switched = self.rings.iter().map(|ring| switch(ring.event.as_fd())).fold(Ok(()), Result::and);
        switched.map_err(|source| MonitorError::System { attempt: "switch a recorder", source })
    }

    /// Passes what all rings have now to `each`, in order of time. Each ring records nothing while it is copied. Returns the records that made no
    /// sense.
    ///
    /// # Errors
    /// The kernel's error if a ring cannot be paused.
    pub fn snapshot(&self, mut each: impl FnMut(&Recorded<'_>)) -> Result<u64, MonitorError> {
        let (mut bytes, mut found, mut malformed) = (Vec::new(), Vec::new(), 0);
        for CpuRing { cpu, ring, event } in &self.rings {
            let copied = ring.snapshot(event.as_fd(), |record| match self.layout.time(record) {
                Some(time_ns) => {
                    let start = bytes.len();
                    bytes.extend_from_slice(record);
                    found.push((time_ns, *cpu, start..bytes.len()));
                }
                None => malformed += 1,
            });
            copied.map_err(|source| MonitorError::System { attempt: "copy a ring", source })?;
        }
        // Of one CPU, the newest comes first.
        found.reverse();
        found.sort_by_key(|(time_ns, cpu, _)| (*time_ns, *cpu));
        for (time_ns, cpu, range) in found {
            match Record::parse(bytes.get(range).unwrap_or_default(), &self.layout) {
                Ok(record) => each(&Recorded { time_ns, cpu, record }),
                Err(_) => malformed += 1,
            }
        }
        Ok(malformed)
    }
}
