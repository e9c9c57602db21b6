//! Opens the same events on one thread or CPU after another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::perf;

use super::CounterSpec;
use super::reading::reason;
use crate::Error;

/// When counting begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// When the counters are enabled.
    Disabled,
    /// Immediately.
    Enabled,
    /// When the thread calls exec: nothing that a waiting command does before its start is counted. Enabling it earlier
    /// starts it earlier.
    OnExec,
}

/// The thread or CPU to open an event on, as the kernel's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterSlot {
    pub pid: i32,
    pub cpu: i32,
}

/// The events to open, and how.
#[derive(Debug)]
pub(super) struct Plan {
    pub specs: Vec<CounterSpec>,
    /// Flags of every event.
    flags: u64,
    start: Start,
    /// By event: whether it is a member of the group, whose events are counted together.
    grouped: Vec<bool>,
    /// By event: the reason of the last refusal.
    pub refused: Vec<Option<String>>,
}

/// The events of one thread or CPU, by index.
#[derive(Debug)]
pub(super) struct Opened {
    fds: Vec<Option<OwnedFd>>,
    /// The event that leads the group.
    leader: Option<usize>,
    grouped: Vec<bool>,
}

impl Plan {
    /// Opens the events at `probe` without counting, to find out whether the default events fit into one group.
    pub fn new(specs: &[CounterSpec], flags: u64, start: Start, probe: CounterSlot) -> Self {
        let grouped = specs.iter().map(CounterSpec::is_default).collect();
        Self::with_group(specs, flags, start, probe, grouped)
    }

    fn with_group(
        specs: &[CounterSpec],
        flags: u64,
        start: Start,
        probe: CounterSlot,
        grouped: Vec<bool>,
    ) -> Self {
        let single = vec![false; specs.len()];
        let refused = vec![None; specs.len()];
        let mut plan = Self { specs: specs.to_vec(), flags, start: Start::Disabled, grouped, refused };
        let together = plan.open(probe).map(|opened| opened.count());
        let grouped = std::mem::replace(&mut plan.grouped, single);
        let singly = plan.open(probe).map(|opened| opened.count());
        plan.start = start;
        // If fewer events open in the group than alone, the group does not fit.
        if together.unwrap_or(0) >= singly.unwrap_or(0) {
            plan.grouped = grouped;
        }
        plan
    }

    /// Opens the events that can be opened at `slot`; stores the reason for each refusal.
    ///
    /// # Errors
    /// `ESRCH` or `ENODEV` if the thread or CPU is gone. Then no event is open and none counts as refused.
    pub fn open(&mut self, slot: CounterSlot) -> io::Result<Opened> {
        let mut opened =
            Opened { fds: Vec::with_capacity(self.specs.len()), leader: None, grouped: self.grouped.clone() };
        for (number, spec) in self.specs.iter().enumerate() {
            let grouped = self.grouped[number];
            let leader = opened.leader.filter(|_| grouped);
            // A member runs when its leader does.
            let start = match self.start {
                Start::Disabled => perf::DISABLED,
                Start::OnExec => perf::DISABLED | perf::ENABLE_ON_EXEC,
                Start::Enabled => 0,
            };
            let flags = self.flags | if leader.is_some() { 0 } else { start };
            let group = leader.and_then(|leader| opened.fd(leader));
            match perf::open(&spec.attr(flags), slot.pid, slot.cpu, group) {
                Ok(fd) => {
                    opened.fds.push(Some(fd));
                    if grouped && leader.is_none() {
                        opened.leader = Some(number);
                    }
                }
                Err(error) if is_gone(&error, slot) => return Err(error),
                Err(error) => {
                    opened.fds.push(None);
                    self.refused[number] = Some(reason(&error));
                }
            }
        }
        Ok(opened)
    }
}

impl Opened {
    /// The event with this index.
    pub fn fd(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.fds.get(number)?.as_ref().map(AsFd::as_fd)
    }

    fn count(&self) -> usize {
        self.fds.iter().flatten().count()
    }

    /// Whether all `expected` events are open.
    pub fn has_all(&self, expected: &[bool]) -> bool {
        self.fds.iter().zip(expected).all(|(fd, &expected)| fd.is_some() || !expected)
    }

    /// For each event, whether it is open.
    pub fn opened(&self) -> impl Iterator<Item = bool> {
        self.fds.iter().map(Option::is_some)
    }

    /// Applies an ioctl to all events except the members of a group, which follow their leader.
    pub fn switch(&self, switch: fn(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut result = Ok(());
        for (number, fd) in self.fds.iter().enumerate() {
            let follows = self.grouped[number] && self.leader != Some(number);
            if let Some(fd) = fd.as_ref().filter(|_| !follows) {
                result = result.and(switch(fd.as_fd()));
            }
        }
        result
    }
}

/// Applies an ioctl, which messages call `action`, to the events of all these threads or CPUs.
///
/// # Errors
/// The first error; the other events are switched nevertheless.
pub(super) fn switch_all<'a>(
    all: impl Iterator<Item = &'a Opened>,
    action: &'static str,
    switch: fn(BorrowedFd<'_>) -> io::Result<()>,
) -> Result<(), Error> {
    let switched = all.map(|opened| opened.switch(switch)).fold(Ok(()), io::Result::and);
    switched.map_err(|source| Error::SwitchCounters { action, source })
}

/// Whether the thread or the CPU is missing, rather than the event.
fn is_gone(error: &io::Error, slot: CounterSlot) -> bool {
    match Errno::from_io_error(error) {
        Some(Errno::SRCH) => true,
        // For a thread, the error concerns the processor's support of the event. For a CPU it may mean that the CPU is
        // offline, or that the hardware lacks the event: look whether the CPU is online.
        Some(Errno::NODEV) => slot.pid == -1 && !is_online(slot.cpu),
        _ => false,
    }
}

fn is_online(cpu: i32) -> bool {
    crate::online_cpus().is_ok_and(|cpus| cpus.iter().any(|&online| i32::try_from(online) == Ok(cpu)))
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    const SELF: CounterSlot = CounterSlot { pid: 0, cpu: -1 };

    #[test]
    fn members_of_a_group_follow_their_leader() {
        let specs = CounterSpec::parse_list("page-faults,task-clock,context-switches").unwrap();
        let mut plan = Plan::with_group(&specs, 0, Start::Disabled, SELF, vec![true, true, false]);
        if plan.refused.iter().any(Option::is_some) {
            testkit::skip!("perf events are not permitted");
        }
        assert_eq!(plan.grouped, [true, true, false], "software events fit into any group");
        let opened = plan.open(SELF).unwrap();
        assert_eq!(opened.leader, Some(0));
        let read = |number: usize| perf::read_count(opened.fd(number).unwrap()).unwrap();
        assert_eq!(read(1), perf::Count::default(), "nothing runs before it is enabled");
        opened.switch(perf::enable).unwrap();
        let cpu_ns = || {
            let used = clock_gettime(ClockId::ThreadCPUTime);
            used.tv_sec * 1_000_000_000 + used.tv_nsec
        };
        let busy = cpu_ns();
        while cpu_ns() - busy < 5_000_000 {}
        opened.switch(perf::disable).unwrap();
        let (leader, member) = (read(0), read(1));
        assert!(member.value >= 1_000_000, "{member:?}");
        assert_eq!((member.enabled_ns, member.running_ns), (leader.enabled_ns, leader.running_ns));
        assert_eq!(read(1), member, "nothing runs after it is disabled");
    }

    #[test]
    fn a_refused_event_does_not_affect_the_others() {
        // Raw events need a PMU with that number; this one has no PMU at all.
        let mut specs = CounterSpec::parse_list("rffffffffffffffff,task-clock").unwrap();
        specs.swap(0, 1);
        let mut plan = Plan::new(&specs, 0, Start::Disabled, SELF);
        if plan.refused[0].is_some() {
            testkit::skip!("perf events are not permitted");
        }
        let opened = plan.open(SELF).unwrap();
        let (there, refused) = (opened.opened().collect::<Vec<_>>(), plan.refused[1].is_some());
        assert_eq!(there, [true, !refused]);
    }
}
