//! A group at one place: on a CPU, or for a thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use perf_abi::numbers::read_format;
use perf_abi::{CounterGroup, Layout};
use rustix::io::Errno;
use sys::perf;

use super::reading::Counted;

/// While a thread that has inherited the group begins or ends, the kernel reads no values of the whole.
const LONGEST_CHANGE: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(5);

/// An event at a place.
#[derive(Debug)]
pub(super) struct PartEvent {
    pub fd: OwnedFd,
    /// The kernel's number of it.
    pub id: u64,
    pub read_format: u64,
    /// Of its records.
    pub layout: Layout,
}

/// A group at one place. The first event leads it.
#[derive(Debug)]
pub(super) struct Part {
    pub source: usize,
    pub cpu: Option<u32>,
    pub thread: Option<u32>,
    pub events: Vec<PartEvent>,
    /// What had been counted at the last reset.
    before: Vec<Counted>,
    /// If there is a probe, what keeps its events where they were inherited.
    _holder: Option<OwnedFd>,
}

impl Part {
    pub fn new(
        source: usize,
        cpu: Option<u32>,
        thread: Option<u32>,
        events: Vec<PartEvent>,
        holder: Option<OwnedFd>,
    ) -> Self {
        let before = vec![Counted::default(); events.len()];
        Self { source, cpu, thread, events, before, _holder: holder }
    }

    /// Applies an ioctl to the leader, which the others follow.
    pub fn switch(&self, switch: fn(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        self.events.first().map_or(Ok(()), |leader| switch(leader.fd.as_fd()))
    }

    /// Counts from zero. The kernel's own reset leaves the counts of ended children and all times.
    pub fn reset(&mut self) -> io::Result<()> {
        self.before = self.read_all()?;
        Ok(())
    }

    /// What was counted since the last reset, in the order of the events.
    pub fn read(&self) -> io::Result<Vec<Counted>> {
        let now = self.read_all()?;
        Ok(now.iter().zip(&self.before).map(|(now, before)| now.since(before)).collect())
    }

    fn read_all(&self) -> io::Result<Vec<Counted>> {
        match self.events.first() {
            Some(leader) if leader.read_format & read_format::GROUP != 0 => self.read_together(leader),
            _ => self.events.iter().map(read_one).collect(),
        }
    }

    fn read_together(&self, leader: &PartEvent) -> io::Result<Vec<Counted>> {
        let begun = Instant::now();
        let group = loop {
            match read_group(leader, self.events.len()) {
                Err(error) if is_changing(&error) && begun.elapsed() < LONGEST_CHANGE => {
                    std::thread::sleep(TRY_EVERY);
                }
                read => break read?,
            }
        };
        let of = |event: &PartEvent| {
            let found =
                group.values.iter().find(|value| value.id == Some(event.id)).ok_or_else(incomplete)?;
            Ok(counted(&group, found.value))
        };
        self.events.iter().map(of).collect()
    }

    /// Whether the whole can be read: not if a thread has inherited a part of it.
    pub fn is_whole(&self) -> bool {
        let Some(leader) = self.events.first() else { return true };
        leader.read_format & read_format::GROUP == 0
            || !read_group(leader, self.events.len()).is_err_and(|error| is_changing(&error))
    }
}

fn is_changing(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::CHILD)
}

fn read_one(event: &PartEvent) -> io::Result<Counted> {
    let group = read_group(event, 1)?;
    let value = group.values.first().ok_or_else(incomplete)?.value;
    Ok(counted(&group, value))
}

fn counted(group: &CounterGroup, value: u64) -> Counted {
    let (enabled_ns, running_ns) = (group.time_enabled.unwrap_or(0), group.time_running.unwrap_or(0));
    Counted { value, enabled_ns, running_ns }
}

fn read_group(event: &PartEvent, events: usize) -> io::Result<CounterGroup> {
    // A number and two times; of each event its value, its number and its losses.
    let mut bytes = vec![0; 8 * (3 + 3 * events)];
    let len = rustix::io::retry_on_intr(|| rustix::io::read(&event.fd, &mut bytes))?;
    CounterGroup::parse(bytes.get(..len).unwrap_or_default(), event.read_format).map_err(|_| incomplete())
}

fn incomplete() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel told less than the group has")
}

/// The ioctls that start and stop a group.
pub(super) const ENABLE: fn(BorrowedFd<'_>) -> io::Result<()> = perf::enable;
pub(super) const DISABLE: fn(BorrowedFd<'_>) -> io::Result<()> = perf::disable;
