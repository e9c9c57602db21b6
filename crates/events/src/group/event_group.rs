//! A group that is open.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use perf_abi::EventAttr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::event::{GroupEvent, Member};
use super::opening::{Opened, Plan};
use super::options::GroupOptions;
use super::part::{DISABLE, ENABLE, Part};
use super::reading::{GroupReading, PartReading, summed};
use super::recording::{GroupRecord, GroupRun, GroupStopper, deliver, open_rings};
use crate::monitor::Source;
use crate::monitor::error::MonitorError;
use crate::monitor::place::Sources;
use crate::monitor::rings::Rings;

/// Events that are counted together, at all places of their sources. It is closed when it is dropped.
#[derive(Debug)]
pub struct EventGroup {
    // Closed before the members: the kernel removes no probe that has events.
    parts: Vec<Part>,
    members: Vec<Member>,
    sources: Sources,
    /// If events are sampled.
    rings: Option<Rings>,
    stopper: GroupStopper,
    /// The followed processes, as descriptors: a number may go to another process.
    processes: Vec<OwnedFd>,
    uncounted: u64,
}

impl EventGroup {
    /// Opens the events everywhere, disabled: the first leads, and all are counted when it is. This process may have as many open files then as it is
    /// allowed.
    ///
    /// # Errors
    /// [`MonitorError`] if a source is not there, or if an event cannot be opened or does not fit into the group. Nothing stays open then.
    pub fn open(events: &[GroupEvent], options: &GroupOptions) -> Result<Self, MonitorError> {
        if events.is_empty() {
            return Err(MonitorError::EmptyGroup);
        }
        sys::usage::raise_open_files();
        let sources = Sources::open(&options.sources, options.cgroup_root.as_deref())?;
        let tracing_dir = options.tracing_dir.as_deref();
        let member = |event| Member::of(event, sources.follow_threads(), tracing_dir);
        let members = events.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let processes = sources.all.iter().filter_map(process_of).collect();
        let cpus = crate::online_cpus()?;
        let enable_on_exec = options.enable_on_exec;
        let is_sampled = events.iter().any(GroupEvent::is_sampled);
        let rings = is_sampled.then(|| open_rings(&sources, &cpus, options.pages())).transpose()?;
        let plan =
            Plan { members: &members, sources: &sources, cpus: &cpus, enable_on_exec, rings: rings.as_ref() };
        let Opened { parts, uncounted } = plan.open()?;
        let stopper = GroupStopper::of(rings.as_ref())?;
        Ok(Self { parts, members, sources, rings, stopper, processes, uncounted })
    }

    /// What the events are called, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// The attributes by the kernel's number of each event at each place.
    #[must_use]
    pub fn attrs_by_id(&self) -> BTreeMap<u64, &EventAttr> {
        let of = |part: &Part| part.events.iter().map(|event| event.id).collect::<Vec<_>>();
        let ids = self.parts.iter().flat_map(|part| of(part).into_iter().zip(&self.members));
        ids.map(|(id, member)| (id, &member.attr)).collect()
    }

    /// Starts counting at all places.
    ///
    /// # Errors
    /// The kernel's first error; the other places are started nevertheless.
    pub fn enable(&mut self) -> Result<(), MonitorError> {
        self.switch(ENABLE, "enable a group of events")
    }

    /// Stops counting at all places.
    ///
    /// # Errors
    /// As [`enable`](Self::enable).
    pub fn disable(&mut self) -> Result<(), MonitorError> {
        self.switch(DISABLE, "disable a group of events")
    }

    fn switch(
        &self,
        switch: fn(BorrowedFd<'_>) -> io::Result<()>,
        attempt: &'static str,
    ) -> Result<(), MonitorError> {
        let switched = self.parts.iter().map(|part| part.switch(switch)).fold(Ok(()), io::Result::and);
        switched.map_err(|source| MonitorError::System { attempt, source })
    }

    /// Counts from zero at all places, times included.
    ///
    /// # Errors
    /// As [`enable`](Self::enable).
    pub fn reset(&mut self) -> Result<(), MonitorError> {
        let reset = self.parts.iter_mut().map(Part::reset).fold(Ok(()), io::Result::and);
        reset.map_err(|source| MonitorError::System { attempt: "reset a group of events", source })
    }

    /// The counts so far, with those of ended threads and children.
    #[must_use]
    pub fn read(&self) -> GroupReading {
        let mut reading = GroupReading::default();
        for part in &self.parts {
            let Ok(counts) = part.read() else {
                reading.failed_reads += 1;
                continue;
            };
            let (source, cpu, thread) = (part.source, part.cpu, part.thread);
            reading.parts.push(PartReading { source, cpu, thread, counts });
        }
        reading.sums = summed(&reading.parts, self.members.len());
        reading
    }

    /// Counts, and delivers each record of the rings in order of time, until it is stopped or all that is followed has ended. The samples have the
    /// values of the whole group.
    ///
    /// # Errors
    /// [`MonitorError::NotSampled`], or the kernel's error at the start.
    pub fn run(&mut self, each: impl FnMut(&GroupRecord<'_>)) -> Result<GroupRun, MonitorError> {
        self.enable()?;
        let Self { rings, parts, sources, stopper, .. } = self;
        let ran = deliver(rings.as_mut(), parts, sources, stopper, each);
        let disabled = self.disable();
        ran.and_then(|ran| disabled.map(|()| ran))
    }

    /// Ends the run from elsewhere: another thread, or from inside of the callback.
    #[must_use]
    pub fn stopper(&self) -> GroupStopper {
        self.stopper.clone()
    }

    /// Threads that began while the group was opened and may not be counted, or twice. For a process that starts threads without pause.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// Whether all that is followed has ended. The system never ends.
    #[must_use]
    pub fn sources_are_gone(&self) -> bool {
        let of_cgroups = || self.sources.cgroups_are_gone();
        let is_process = |source: &Source| matches!(source, Source::Pid(_));
        let of_processes = || self.sources.all.iter().all(is_process) && self.processes.iter().all(has_ended);
        let is_ended_thread = |source: &Source| matches!(source, Source::Tid(tid) if !Path::new("/proc").join(tid.to_string()).is_dir());
        of_cgroups() || of_processes() || self.sources.all.iter().all(is_ended_thread)
    }
}

fn process_of(source: &Source) -> Option<OwnedFd> {
    let Source::Pid(pid) = source else { return None };
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}

/// A descriptor of a process can be read once it has ended.
fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
