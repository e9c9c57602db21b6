//! The records of a group whose events are sampled, in order of time.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perf_abi::{Layout, Record, RecordBody};
use rustix::time::ClockId;

use super::part::{DISABLE, Part};
use crate::monitor::error::MonitorError;
use crate::monitor::merge::{Merge, Ordered};
use crate::monitor::opening::Common;
use crate::monitor::place::Sources;
use crate::monitor::rings::{self, Rings};

/// Rounds are not shorter: the kernel may stop between the time of a record and its place in the ring.
const SHORTEST_ROUND: Duration = Duration::from_millis(1);
/// The longest time for which a record waits for older ones of other CPUs.
const LONGEST_ROUND: Duration = Duration::from_millis(100);
/// Bytes of records that may wait for their turn.
const QUEUE: usize = 64 << 20;

/// A record of a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupRecord<'a> {
    /// Index of the event; none for records about threads.
    pub event: Option<usize>,
    /// The CPU whose ring had it.
    pub cpu: u32,
    /// ns of the monotonic clock.
    pub time_ns: u64,
    /// Something later was delivered before.
    pub late: bool,
    /// The record. A sample has the values of the group, with the kernel's numbers of their events.
    pub record: Record<'a>,
}

/// What a run has delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupRun {
    /// Records.
    pub delivered: u64,
    /// Samples that found no room in a ring, as records have told.
    pub lost: u64,
    /// Records out of order.
    pub late: u64,
    /// Records that made no sense, and those of unknown events.
    pub malformed: u64,
    /// Bytes of rings that made no sense.
    pub corrupt_bytes: u64,
}

/// Ends a run. Clones end the same one.
#[derive(Clone, Debug)]
pub struct GroupStopper {
    stop: Arc<AtomicBool>,
    waker: Option<Arc<OwnedFd>>,
}

impl GroupStopper {
    pub(super) fn of(rings: Option<&Rings>) -> Result<Self, MonitorError> {
        let waker = rings.map(|rings| rings.waker().try_clone()).transpose();
        let waker = waker
            .map_err(|source| MonitorError::System { attempt: "make a descriptor to stop by", source })?;
        Ok(Self { stop: Arc::default(), waker: waker.map(Arc::new) })
    }

    /// Ends the run that goes on, or the next one. What the rings hold is delivered.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(waker) = &self.waker {
            let _it_ends_at_the_next_round = rustix::io::write(waker, &1u64.to_ne_bytes());
        }
    }
}

/// Opens a ring for each CPU.
pub(super) fn open_rings(sources: &Sources, cpus: &[u32], pages: usize) -> Result<Rings, MonitorError> {
    let ring_bytes = pages * sys::usage::page_size();
    let common = Common { clockid: ClockId::Monotonic as i32, ring_bytes, counts_lost: false };
    Rings::open(sources, cpus, pages, common, false)
}

/// Delivers until it is stopped.
pub(super) fn deliver(
    rings: Option<&mut Rings>,
    parts: &[Part],
    sources: &Sources,
    stopper: &GroupStopper,
    mut each: impl FnMut(&GroupRecord<'_>),
) -> Result<GroupRun, MonitorError> {
    let rings = rings.ok_or(MonitorError::NotSampled)?;
    let system = |attempt| move |source| MonitorError::System { attempt, source };
    let descriptor = rings.descriptor().try_clone().map_err(system("wait for rings"))?;
    rings.switch(true).map_err(system("switch the records about threads"))?;
    let known = Known::of(rings, parts);
    let (mut run, mut merge) = (GroupRun::default(), Merge::default());
    while !stopper.stop.swap(false, Ordering::AcqRel) {
        let began = Instant::now();
        let ready = rings::wait(descriptor.as_fd(), LONGEST_ROUND);
        std::thread::sleep(SHORTEST_ROUND.saturating_sub(began.elapsed()));
        let now_ns = sys::clock::kernel_ns();
        let is_alive = rings.woken(&ready) && !sources.cgroups_are_gone();
        known.collect(rings, &mut merge, &mut run);
        merge.end_round(now_ns, QUEUE, |ordered| known.pass_on(ordered, &mut run, &mut each));
        if !is_alive {
            break;
        }
    }
    // Nothing comes any more: what the rings hold is the rest.
    for part in parts {
        let _told_by_the_caller = part.switch(DISABLE);
    }
    let stopped = rings.switch(false).map_err(system("switch the records about threads"));
    known.collect(rings, &mut merge, &mut run);
    merge.finish(|ordered| known.pass_on(ordered, &mut run, &mut each));
    stopped.map(|()| run)
}

/// The events whose records are in the rings, by the kernel's number.
struct Known(HashMap<u64, (Option<usize>, Layout)>);

impl Known {
    fn of(rings: &Rings, parts: &[Part]) -> Self {
        let of_threads = rings.events().map(|event| (event.id, (None, rings.layout)));
        let of_part = |part: &Part| {
            let events = part.events.iter().enumerate();
            events.map(|(at, event)| (event.id, (Some(at), event.layout))).collect::<Vec<_>>()
        };
        Self(of_threads.chain(parts.iter().flat_map(of_part)).collect())
    }

    fn find(&self, record: &[u8]) -> Option<&(Option<usize>, Layout)> {
        self.0.get(&Layout::identifier(record)?)
    }

    fn collect(&self, rings: &mut Rings, merge: &mut Merge, run: &mut GroupRun) {
        let mut malformed = 0;
        run.corrupt_bytes +=
            rings.drain(|cpu, record| match self.find(record).and_then(|(_, layout)| layout.time(record)) {
                Some(time_ns) => merge.push(time_ns, cpu, record),
                None => malformed += 1,
            });
        run.malformed += malformed;
    }

    fn pass_on(&self, ordered: Ordered<'_>, run: &mut GroupRun, each: &mut impl FnMut(&GroupRecord<'_>)) {
        let Some((event, layout)) = self.find(ordered.bytes) else { return };
        let Ok(record) = Record::parse(ordered.bytes, layout) else {
            run.malformed += 1;
            return;
        };
        run.delivered += 1;
        run.late += u64::from(ordered.late);
        if let RecordBody::Lost { lost, .. } | RecordBody::LostSamples { lost } = record.body {
            run.lost += lost;
        }
        let (cpu, time_ns, late) = (ordered.cpu, ordered.time_ns, ordered.late);
        each(&GroupRecord { event: *event, cpu, time_ns, late, record });
    }
}
