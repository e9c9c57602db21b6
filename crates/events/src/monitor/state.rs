//! What is open: rings, and the registered events with their descriptors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use perf_abi::numbers::event_type;
use perf_abi::{EventAttr, Layout};
use sys::perf;
use tracepoints::Format;

use super::counts::{Counts, MonitorStats, add};
use super::error::MonitorError;
use super::item::EventId;
use super::merge::Merge;
use super::opening::{OpenFd, open_all};
use super::place::Sources;
use super::probe::{Prepared, hold_events};
use super::request::EventRequest;
use super::resolved::Resolved;
use super::rings::Rings;
use super::target::{SharedByEvent, Target};

/// Numbers of closed events whose records may still be in rings.
const MAX_RETIRED: usize = 1 << 16;
/// For so long records of a replaced event still arrive.
const CHANGE_NS: u64 = 10_000_000;

/// All targets by the kernel's number of the event.
pub(crate) type Targets = Arc<HashMap<u64, Arc<Target>>>;

/// A registered event.
#[derive(Debug)]
struct Registered {
    name: String,
    attr: EventAttr,
    format: Option<Arc<Format>>,
    enabled: bool,
    filter_number: u32,
    fds: Vec<OpenFd>,
    /// What the kernel knows of a probe. It is undone after the descriptors are closed.
    probe: Option<Prepared>,
    /// Of a probe, what keeps its events where they were inherited.
    _holders: Vec<OwnedFd>,
    shared: Arc<SharedByEvent>,
}

/// What is open.
#[derive(Debug)]
pub(crate) struct State {
    pub rings: Rings,
    pub sources: Sources,
    tracing_dir: Option<PathBuf>,
    default_attr: Option<EventAttr>,
    events: BTreeMap<EventId, Registered>,
    targets: Targets,
    counts: BTreeMap<(Option<EventId>, u32), Arc<Counts>>,
    last: u64,
    pub running: bool,
    corrupt_bytes: u64,
    unknown_id: u64,
}

/// Lost records to tell of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub event: Option<EventId>,
    pub source: usize,
    pub cpu: u32,
    pub count: u64,
}

impl State {
    pub fn new(
        rings: Rings,
        sources: Sources,
        tracing_dir: Option<PathBuf>,
        default_attr: Option<EventAttr>,
    ) -> Self {
        let mut state = Self {
            rings,
            sources,
            tracing_dir,
            default_attr,
            events: BTreeMap::new(),
            targets: Targets::default(),
            counts: BTreeMap::new(),
            last: 0,
            running: false,
            corrupt_bytes: 0,
            unknown_id: 0,
        };
        let shared = Arc::new(SharedByEvent::default());
        let places: Vec<_> = state.rings.events().map(|event| (event.id, event.cpu, event.source)).collect();
        let mut targets = HashMap::new();
        for (id, cpu, source) in places {
            let (counts, shared) = (state.counts_of(None, cpu), Arc::clone(&shared));
            let layout = state.rings.layout;
            let target = Target {
                event: None,
                source,
                ambiguous_thread: None,
                layout,
                format: None,
                shared,
                counts,
                filter_number: 0,
            };
            targets.insert(id, Arc::new(target));
        }
        state.targets = Arc::new(targets);
        state
    }

    fn counts_of(&mut self, event: Option<EventId>, cpu: u32) -> Arc<Counts> {
        Arc::clone(self.counts.entry((event, cpu)).or_default())
    }

    /// The targets as they are now.
    pub fn targets(&self) -> Targets {
        Arc::clone(&self.targets)
    }

    pub fn register(&mut self, mut request: EventRequest) -> Result<EventId, MonitorError> {
        let name = request.name();
        let tracing_dir = self.tracing_dir.as_deref();
        let resolved = Resolved::of(&request, self.sources.follow_threads(), tracing_dir)?;
        let wanted = resolved.attr(&request, self.default_attr.as_ref())?;
        let Resolved { probe, format } = resolved;
        let attr = self.rings.common.complete(wanted, format.is_some());
        let same = |event: &Registered| (event.attr.kind, event.attr.config) == (attr.kind, attr.config);
        if attr.kind == event_type::SOFTWARE && self.events.values().any(same) {
            return Err(MonitorError::Repeated { event: name });
        }
        let shared = Arc::new(SharedByEvent::new(request.decoder.take()));
        let format = format.map(Arc::new);
        let mut event = Registered {
            name,
            attr,
            format,
            enabled: request.enabled,
            filter_number: 0,
            fds: Vec::new(),
            probe,
            _holders: Vec::new(),
            shared,
        };
        let number = EventId(self.last + 1);
        event.fds = self.open(number, &event, request.filter.as_deref())?;
        if event.probe.is_some() {
            let threads: BTreeSet<u32> = event.fds.iter().filter_map(|fd| fd.thread).collect();
            event._holders = threads.into_iter().filter_map(hold_events).collect();
        }
        if event.enabled && self.running {
            event.switch(true)?;
        }
        self.last = number.0;
        self.events.insert(number, event);
        Ok(number)
    }

    /// Opens an event everywhere, disabled, and makes its targets known.
    fn open(
        &mut self,
        id: EventId,
        event: &Registered,
        filter: Option<&str>,
    ) -> Result<Vec<OpenFd>, MonitorError> {
        let cpus = self.rings.cpus();
        let rings = &self.rings;
        let opened =
            open_all(&event.attr, &event.name, filter, &self.sources, &cpus, |cpu| rings.owner(cpu))?;
        let mut targets = HashMap::clone(&self.targets);
        for fd in &opened.fds {
            let target = Target {
                event: Some(id),
                source: fd.source,
                ambiguous_thread: fd.thread.filter(|_| opened.ambiguous),
                layout: Layout::of(&event.attr),
                format: event.format.clone(),
                shared: Arc::clone(&event.shared),
                counts: self.counts_of(Some(id), fd.cpu),
                filter_number: event.filter_number,
            };
            targets.insert(fd.id, Arc::new(target));
        }
        if targets.len() > MAX_RETIRED {
            targets.retain(|_, target| !target.shared.has_ended());
        }
        self.targets = Arc::new(targets);
        Ok(opened.fds)
    }

    /// Closes an event. Records of it that are in rings are dropped.
    pub fn unregister(&mut self, id: EventId) -> Result<(), MonitorError> {
        let mut event = self.events.remove(&id).ok_or(MonitorError::NotRegistered(id))?;
        event.shared.end();
        let _closed_anyway = event.switch(false);
        for loss in event.losses(id) {
            self.count(loss);
        }
        Ok(())
    }

    pub fn enable(&mut self, id: EventId, on: bool) -> Result<(), MonitorError> {
        let running = self.running;
        let event = self.events.get_mut(&id).ok_or(MonitorError::NotRegistered(id))?;
        event.enabled = on;
        if running { event.switch(on) } else { Ok(()) }
    }

    pub fn enable_all(&mut self, on: bool) -> Result<(), MonitorError> {
        let all: Vec<EventId> = self.events.keys().copied().collect();
        all.into_iter().map(|id| self.enable(id, on)).fold(Ok(()), Result::and)
    }

    /// Replaces the filter; the old one stays if the new one is refused. `now_ns` reads the clock of the events.
    pub fn set_filter(
        &mut self,
        id: EventId,
        text: &str,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), MonitorError> {
        let mut event = self.events.remove(&id).ok_or(MonitorError::NotRegistered(id))?;
        event.filter_number += 1;
        let filter = Some(text).filter(|text| !text.is_empty());
        let defined = match (filter, &event.probe) {
            (Some(_), Some(probe)) => probe.defined(self.tracing_dir.as_deref()),
            _ => Ok(None),
        };
        let before = match defined {
            Ok(probe) => probe.and_then(|probe| event.take(probe)),
            Err(error) => {
                self.events.insert(id, event);
                return Err(error);
            }
        };
        let opened = self.open(id, &event, filter);
        let result = opened.and_then(|fds| {
            let mut old = std::mem::replace(&mut event.fds, fds);
            let from_ns = now_ns();
            let enabled = if event.enabled && self.running { event.switch(true) } else { Ok(()) };
            if enabled.is_err() {
                event.fds = old;
                return enabled;
            }
            for fd in &old {
                let _closed_anyway = perf::disable(fd.fd.as_fd());
            }
            event.shared.add_change(from_ns, now_ns().saturating_add(CHANGE_NS));
            let format = event.attr.read_format;
            for fd in &mut old {
                let count = fd.newly_lost(format);
                if let Some(counts) = self.counts.get(&(Some(id), fd.cpu)) {
                    add(&counts.lost, count);
                }
            }
            Ok(())
        });
        if let (Err(_), Some(before)) = (&result, before) {
            event.take(before);
        }
        self.events.insert(id, event);
        result
    }

    /// Starts or stops everything.
    pub fn switch(&mut self, on: bool) -> Result<(), MonitorError> {
        self.running = on;
        let system = |source| MonitorError::System { attempt: "switch the records about threads", source };
        let rings = self.rings.switch(on).map_err(system);
        let wanted = self.events.values().filter(|event| event.enabled);
        wanted.map(|event| event.switch(on)).fold(rings, Result::and)
    }

    /// Passes what all rings have to `merge`.
    pub fn collect(&mut self, merge: &mut Merge) {
        let Self { rings, targets, unknown_id, corrupt_bytes, .. } = self;
        let mut last: Option<(u64, &Target)> = None;
        *corrupt_bytes += rings.drain(|cpu, record| {
            let Some(id) = Layout::identifier(record) else {
                *unknown_id += 1;
                return;
            };
            let known = last.filter(|(known, _)| *known == id).map(|(_, target)| target);
            let Some(target) = known.or_else(|| targets.get(&id).map(AsRef::as_ref)) else {
                *unknown_id += 1;
                return;
            };
            last = Some((id, target));
            if target.shared.has_ended() {
                return;
            }
            match target.layout.time(record) {
                Some(time_ns) => merge.push(time_ns, cpu, record),
                None => add(&target.counts.malformed, 1),
            }
        });
    }

    /// What was lost since the last call, by event and CPU.
    pub fn losses(&mut self) -> Vec<Loss> {
        let rings = self.rings.newly_lost().into_iter();
        let mut losses: Vec<Loss> =
            rings.map(|(cpu, count)| Loss { event: None, source: 0, cpu, count }).collect();
        for (id, event) in &mut self.events {
            losses.extend(event.losses(*id));
        }
        losses.iter().for_each(|loss| self.count(*loss));
        losses
    }

    fn count(&mut self, loss: Loss) {
        add(&self.counts_of(loss.event, loss.cpu).lost, loss.count);
    }

    pub fn stats(&self) -> MonitorStats {
        let events = self.counts.iter().map(|(key, counts)| (*key, counts.read())).collect();
        MonitorStats { events, corrupt_bytes: self.corrupt_bytes, unknown_id: self.unknown_id }
    }
}

impl Registered {
    /// Uses this probe from the next opening on, and returns the one before.
    fn take(&mut self, probe: Prepared) -> Option<Prepared> {
        probe.apply(&mut self.attr);
        self.format = Some(Arc::new(probe.format.clone()));
        self.probe.replace(probe)
    }

    fn switch(&self, on: bool) -> Result<(), MonitorError> {
        let switch: fn(BorrowedFd<'_>) -> io::Result<()> = if on { perf::enable } else { perf::disable };
        let switched = self.fds.iter().map(|fd| switch(fd.fd.as_fd())).fold(Ok(()), io::Result::and);
        let attempt = if on { "enable an event" } else { "disable an event" };
        switched.map_err(|source| MonitorError::System { attempt, source })
    }

    fn losses(&mut self, id: EventId) -> Vec<Loss> {
        let format = self.attr.read_format;
        let lost = |fd: &mut OpenFd| {
            let count = fd.newly_lost(format);
            Loss { event: Some(id), source: fd.source, cpu: fd.cpu, count }
        };
        self.fds.iter_mut().map(lost).filter(|loss| loss.count > 0).collect()
    }
}
