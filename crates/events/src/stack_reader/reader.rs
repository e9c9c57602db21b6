//! The event, its ring, and what comes out of it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perf_abi::numbers::{event_type, sample, software};
use perf_abi::{EventAttr, Layout, Record, RecordBody};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::ClockId;
use sys::perf;
use sys::ring::Ring;

use super::config::{StackConfig, StackReaderError};
use super::sample::StackSample;
use crate::spec::cpu_number;

/// How often the iterator looks whether it was closed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the ring has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackItem {
    /// A sample.
    Sample(Box<StackSample>),
    /// Samples that found no room.
    Lost {
        /// The kernel's number of the event.
        id: u64,
        /// How many.
        lost: u64,
    },
}

/// Samples a thread or a CPU. It is closed when it is dropped.
#[derive(Debug)]
pub struct StackReader {
    // Unmapped before the event is closed.
    ring: Option<Ring>,
    event: Option<OwnedFd>,
    layout: Layout,
    malformed: u64,
    closed: Arc<AtomicBool>,
}

impl StackReader {
    /// Opens the event and its ring, and starts sampling.
    ///
    /// # Errors
    /// [`StackReaderError::Config`] before any system call; then those of the kernel. Nothing stays open.
    pub fn open(config: &StackConfig) -> Result<Self, StackReaderError> {
        config.check()?;
        let attr = attr(config);
        let target = match (config.tid, config.cpu) {
            (Some(tid), _) => format!("thread {tid}"),
            (None, cpu) => format!("CPU {}", cpu.unwrap_or(0)),
        };
        let refused = |source| StackReaderError::Open { target: target.clone(), source };
        let mut bytes = perf_abi::encode(&attr).map_err(|error| refused(std::io::Error::other(error)))?;
        let pid = config.tid.map_or(-1, |tid| i32::try_from(tid).unwrap_or(i32::MAX));
        let event =
            perf::open_bytes(&mut bytes, pid, config.cpu.map_or(-1, cpu_number), None, 0).map_err(refused)?;
        let pages = config.ring_pages;
        let ring =
            Ring::map(event.as_fd(), pages).map_err(|source| StackReaderError::Ring { pages, source })?;
        perf::enable(event.as_fd()).map_err(refused)?;
        let layout = Layout::of(&attr);
        Ok(Self { ring: Some(ring), event: Some(event), layout, malformed: 0, closed: Arc::default() })
    }

    /// Passes on what the ring has, and returns how many records of any kind that were: 0 if it was empty.
    ///
    /// # Errors
    /// [`StackReaderError::Closed`].
    pub fn read_next(&mut self, mut each: impl FnMut(StackItem)) -> Result<u64, StackReaderError> {
        let Self { ring, layout, malformed, .. } = self;
        let drained = ring.as_mut().ok_or(StackReaderError::Closed)?.drain(|record| {
            match Record::parse(record, layout).map(|record| record.body) {
                Ok(RecordBody::Sample(sample)) => each(StackItem::Sample(Box::new(StackSample::of(&sample)))),
                Ok(RecordBody::Lost { id, lost }) => each(StackItem::Lost { id, lost }),
                Ok(_) => {}
                Err(_) => *malformed += 1,
            }
        });
        Ok(drained.records)
    }

    /// Waits for samples and losses, until the thread has ended or the reader is closed.
    pub fn events(&mut self) -> StackEvents<'_> {
        StackEvents { reader: self, ready: VecDeque::new() }
    }

    /// Records that made no sense, and were left out.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Ends [`events`](Self::events) from another thread.
    #[must_use]
    pub fn closer(&self) -> StackCloser {
        StackCloser(Arc::clone(&self.closed))
    }

    /// The event, for a loop of polls of the caller's. None once it is closed.
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    /// Unmaps the ring and closes the event. A second time it does nothing.
    pub fn close(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.ring = None;
        self.event = None;
    }

    /// Waits for a moment. Whether the thread has ended.
    fn wait(&self) -> bool {
        let Some(event) = &self.event else { return true };
        let mut fds = [PollFd::new(event, PollFlags::IN)];
        let timeout = Timespec::try_from(LOOK_EVERY).ok();
        let _interrupted_is_fine = poll(&mut fds, timeout.as_ref());
        fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }
}

/// Ends an iteration from another thread.
#[derive(Clone, Debug)]
pub struct StackCloser(Arc<AtomicBool>);

impl StackCloser {
    /// Ends it within a tenth of a second.
    pub fn close(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Samples and losses as they come.
#[derive(Debug)]
pub struct StackEvents<'a> {
    reader: &'a mut StackReader,
    ready: VecDeque<StackItem>,
}

impl Iterator for StackEvents<'_> {
    type Item = StackItem;

    fn next(&mut self) -> Option<StackItem> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.reader.closed.load(Ordering::Acquire) {
                return None;
            }
            let has_ended = self.reader.wait();
            let Self { reader, ready } = self;
            let read = reader.read_next(|item| ready.push_back(item)).ok()?;
            if has_ended && read == 0 {
                return None;
            }
        }
    }
}

fn attr(config: &StackConfig) -> EventAttr {
    EventAttr {
        kind: event_type::SOFTWARE,
        config: software::CPU_CLOCK,
        sample_freq: config.sample_freq,
        freq: true,
        sample_type: sample::IP
            | sample::TID
            | sample::TIME
            | sample::CALLCHAIN
            | sample::REGS_USER
            | sample::STACK_USER,
        sample_regs_user: config.registers,
        sample_stack_user: config.stack_bytes,
        disabled: true,
        exclude_kernel: true,
        exclude_hv: true,
        exclude_callchain_kernel: true,
        use_clockid: true,
        clockid: ClockId::Monotonic as i32,
        wakeup_events: 1,
        ..EventAttr::default()
    }
}
