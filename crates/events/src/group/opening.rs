//! Opens a group at all places.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use perf_abi::numbers::read_format;
use perf_abi::{EventAttr, Layout};
use rustix::io::Errno;
use sys::perf;

use super::event::Member;
use super::part::{Part, PartEvent};
use crate::monitor::error::MonitorError;
use crate::monitor::opening::{Common, filter_text, is_gone, open_one, set_filter};
use crate::monitor::place::{Place, Sources};
use crate::monitor::probe::hold_events;
use crate::monitor::rings::Rings;

/// Time to find a moment without new threads.
const SETTLE: Duration = Duration::from_millis(500);

/// How a group is opened.
pub(super) struct Plan<'a> {
    pub members: &'a [Member],
    pub sources: &'a Sources,
    pub cpus: &'a [u32],
    pub enable_on_exec: bool,
    /// Where records go, if there are any.
    pub rings: Option<&'a Rings>,
}

/// A group at all places.
pub(super) struct Opened {
    pub parts: Vec<Part>,
    /// Threads that began, or whose children began, meanwhile: they may lack the group, or have it twice.
    pub uncounted: u64,
}

/// Why a group cannot be opened at a place.
enum Refusal {
    /// The thread has ended or the CPU is gone: nothing is to be counted there.
    Gone,
    /// A child of the thread has taken its counters meanwhile.
    Moved(MonitorError),
    Failed(MonitorError),
}

impl Plan<'_> {
    /// Opens the group everywhere, disabled. A thread that begins meanwhile may inherit all of the group, a part of it or nothing, and that
    /// cannot be observed: then everything is opened again.
    pub fn open(&self) -> Result<Opened, MonitorError> {
        let begun = Instant::now();
        loop {
            let is_last = begun.elapsed() >= SETTLE;
            let places = self.sources.places()?;
            let (mut parts, mut moved) = (Vec::new(), Vec::new());
            for (place, cpu) in places.iter().flat_map(|place| self.slots_of(place)) {
                match self.open_part(place, cpu) {
                    Ok(part) => parts.push(part),
                    Err(Refusal::Gone) => {}
                    Err(Refusal::Moved(error)) => moved.push(error),
                    Err(Refusal::Failed(error)) => return Err(error),
                }
            }
            let new = self.sources.new_threads(&places).len() as u64;
            let torn = parts.iter().filter(|part| !part.is_whole()).count() as u64;
            let uncounted = new + torn + moved.len() as u64;
            if !is_last && uncounted > 0 {
                continue;
            }
            if parts.is_empty() {
                // No thread takes the group: it fits nowhere.
                if let Some(error) = moved.pop() {
                    return Err(error);
                }
                return Err(match places.first().and_then(Place::thread) {
                    Some(number) => MonitorError::NoSuchProcess { what: "thread", number },
                    None => MonitorError::NoCpu,
                });
            }
            return Ok(Opened { parts, uncounted });
        }
    }

    /// A thread is counted wherever it runs, but its records go to the ring of the CPU.
    fn slots_of<'p>(&self, place: &'p Place) -> Vec<(&'p Place, Option<u32>)> {
        if place.thread().is_some() && self.rings.is_none() {
            return vec![(place, None)];
        }
        self.cpus.iter().map(|&cpu| (place, Some(cpu))).collect()
    }

    fn open_part(&self, place: &Place, cpu: Option<u32>) -> Result<Part, Refusal> {
        let mut events: Vec<PartEvent> = Vec::new();
        for member in self.members {
            let attr = self.attr(&member.attr, place, events.is_empty());
            let leader = events.first().map(|leader| leader.fd.as_fd());
            let fd = open_one(&attr, &member.name, place, cpu, leader)
                .map_err(|error| self.refusal(error, member, &attr, place, cpu, leader))?;
            let failed = |attempt| move |source| Refusal::Failed(MonitorError::System { attempt, source });
            if let Some(text) = &member.filter {
                let (text, filter) = filter_text(&member.name, text).map_err(Refusal::Failed)?;
                set_filter(&fd, &member.name, &text, &filter).map_err(Refusal::Failed)?;
            }
            if let Some(ring) = self.rings.zip(cpu).and_then(|(rings, cpu)| rings.owner(cpu)) {
                perf::set_output(fd.as_fd(), ring)
                    .map_err(failed("send records of an event to the ring of its CPU"))?;
            }
            let id = perf::event_id(fd.as_fd()).map_err(failed("ask for the number of an event"))?;
            events.push(PartEvent { fd, id, read_format: attr.read_format, layout: Layout::of(&attr) });
        }
        let has_probe = self.members.iter().any(Member::is_probe);
        let holder = place.thread().filter(|_| has_probe).and_then(hold_events);
        Ok(Part::new(place.source, cpu, place.thread(), events, holder))
    }

    /// The attribute at a place. Members run when their leader does.
    fn attr(&self, wanted: &EventAttr, place: &Place, leads: bool) -> EventAttr {
        let mut attr = wanted.clone();
        attr.inherit = place.thread().is_some();
        attr.read_format |=
            read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING | read_format::ID;
        if reads_together(self.members, place) {
            attr.read_format |= read_format::GROUP;
        }
        if let Some(rings) = self.rings {
            let common = Common { counts_lost: rings.common.counts_lost, ..rings.common };
            attr = common.complete(attr, false);
        }
        attr.disabled = leads;
        attr.enable_on_exec = leads && self.enable_on_exec;
        attr
    }

    fn refusal(
        &self,
        error: MonitorError,
        member: &Member,
        attr: &EventAttr,
        place: &Place,
        cpu: Option<u32>,
        leader: Option<BorrowedFd<'_>>,
    ) -> Refusal {
        if is_gone(&error, place, cpu.unwrap_or(0)) {
            return Refusal::Gone;
        }
        let errno = match &error {
            MonitorError::Open { source, .. } | MonitorError::Unsupported { source, .. } => {
                Errno::from_io_error(source)
            }
            _ => None,
        };
        if leader.is_none() || !matches!(errno, Some(Errno::INVAL | Errno::NODEV)) {
            return Refusal::Failed(error);
        }
        let alone = EventAttr { disabled: true, ..attr.clone() };
        match open_one(&alone, &member.name, place, cpu, None) {
            // The thread has ended since its leader was opened, which Linux 6.15 and later tell by the state of the leader.
            Err(ended) if is_gone(&ended, place, cpu.unwrap_or(0)) => return Refusal::Gone,
            Err(_) => return Refusal::Failed(error),
            Ok(_) => {}
        }
        let leader = self.members.first().map_or(String::new(), |leader| leader.name.clone());
        let unfit = MonitorError::DoesNotFit { event: member.name.clone(), leader };
        if place.thread().is_some() { Refusal::Moved(unfit) } else { Refusal::Failed(unfit) }
    }
}

/// Whether one read gives all values. Values of threads are read one by one, unless samples are to have all: the kernel refuses to read a group
/// while one of the threads that have inherited it begins or ends.
fn reads_together(members: &[Member], place: &Place) -> bool {
    let in_samples = |member: &Member| {
        member.attr.sample_type & perf_abi::numbers::sample::READ != 0
            || member.attr.read_format & read_format::GROUP != 0
    };
    place.thread().is_none() || members.iter().any(in_samples)
}
