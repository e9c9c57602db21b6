//! What the kernel tells about all processes: executable mappings, names, forks and exits, from all CPUs, in order.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use sys::perf::{self, Attr};
use sys::ring::Ring;

use crate::record::{self, TimedRecord};
use crate::set::is_offline;
use crate::spec::cpu_number;
use crate::{Error, monotonic_ns};

/// Pages of each CPU's ring that hold about a thousand records.
pub const DEFAULT_RING_PAGES: usize = 32;

/// A record may become visible this much after its time stamp was taken. Younger ones wait for the next round, so that
/// none that is older can come after them.
const HOLD_BACK_NS: u64 = 1_000_000;

const EVENT: &str = "software/dummy";

/// What was met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideBandCounts {
    /// Records handed out.
    pub records: u64,
    /// Records that the kernel could not write because a ring was full.
    pub lost: u64,
    /// Records, or remains of a ring, that did not make sense.
    pub malformed: u64,
    /// Records about processes that are invisible in the PID namespace of this process; not handed out.
    pub outside_namespace: u64,
}

/// One event per CPU that counts nothing and records what processes do.
#[derive(Debug)]
pub struct SideBand {
    /// Also those that went offline since: their records may not have been read.
    cpus: Vec<OnCpu>,
    /// Of each ring.
    pages: usize,
    waiting: Vec<TimedRecord>,
    counts: SideBandCounts,
}

#[derive(Debug)]
struct OnCpu {
    cpu: u32,
    online: bool,
    /// Unmapped before the event is closed.
    ring: Ring,
    event: OwnedFd,
}

impl OnCpu {
    /// None if the CPU is offline. The number of pages is halved until they may be locked.
    fn open(cpu: u32, pages: &mut usize) -> Result<Option<Self>, Error> {
        let attr = Attr {
            kind: perf::TYPE_SOFTWARE,
            config: perf::SW_DUMMY,
            sample_type: perf::SAMPLE_TIME,
            clockid: rustix::time::ClockId::Monotonic as i32,
            flags: perf::DISABLED
                | perf::MMAP
                | perf::MMAP2
                | perf::COMM
                | perf::COMM_EXEC
                | perf::TASK
                | perf::SAMPLE_ID_ALL
                | perf::USE_CLOCKID
                | perf::EXCLUDE_KERNEL,
            ..Attr::default()
        };
        let event = match perf::open(&attr, -1, cpu_number(cpu), None) {
            Ok(event) => event,
            Err(error) if is_offline(&error) => return Ok(None),
            Err(source) => return Err(Error::Open { event: EVENT.to_owned(), cpu, source }),
        };
        let ring = loop {
            match Ring::map(event.as_fd(), *pages) {
                Ok(ring) => break ring,
                Err(error) if *pages > 1 && is_too_large(&error) => *pages /= 2,
                Err(source) => return Err(Error::Ring { event: EVENT.to_owned(), cpu, source }),
            }
        };
        Ok(Some(Self { cpu, online: true, ring, event }))
    }

    fn enable(&self) -> Result<(), Error> {
        let enabled = perf::enable(self.event.as_fd());
        enabled.map_err(|source| Error::Switch { action: "enable", cpu: self.cpu, source })
    }
}

impl SideBand {
    /// Opens the events of all processes on `cpus` and starts them. Each gets a ring of `pages` pages (rounded up to a
    /// power of two), or of as many as may be locked.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NoCpu`], [`Error::Ring`] or [`Error::Switch`]. Whatever was opened is closed then.
    pub fn open(cpus: &[u32], pages: usize) -> Result<Self, Error> {
        let mut pages = pages.clamp(1, 1 << 16).next_power_of_two();
        let mut opened = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            opened.extend(OnCpu::open(cpu, &mut pages)?);
        }
        if opened.is_empty() {
            return Err(Error::NoCpu { event: EVENT.to_owned(), cpus: cpus.len() });
        }
        opened.iter().try_for_each(OnCpu::enable)?;
        Ok(Self { cpus: opened, pages, waiting: Vec::new(), counts: SideBandCounts::default() })
    }

    /// Records also what happens on CPUs that came online since. Called now and then with those that are: the kernel
    /// ends events with their CPU and does not bring them back. Gives the new ones.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Ring`], [`Error::Switch`] for a CPU; it is tried again by the next call.
    pub fn follow(&mut self, online: &[u32]) -> Result<Vec<u32>, Error> {
        for on_cpu in &mut self.cpus {
            on_cpu.online &= online.contains(&on_cpu.cpu);
        }
        let mut new = Vec::new();
        for &cpu in online {
            if !self.cpus.iter().any(|on_cpu| on_cpu.online && on_cpu.cpu == cpu)
                && let Some(opened) = OnCpu::open(cpu, &mut self.pages)?
            {
                opened.enable()?;
                self.cpus.push(opened);
                new.push(cpu);
            }
        }
        Ok(new)
    }

    /// Appends what has happened since the last call, up to a millisecond ago, in order of time: also over several
    /// calls and CPUs.
    pub fn drain(&mut self, out: &mut Vec<TimedRecord>) {
        let up_to = monotonic_ns().saturating_sub(HOLD_BACK_NS);
        self.collect();
        self.hand_out(up_to, out);
    }

    /// Appends all that has happened since the last call. For the end: records of the last millisecond may come
    /// out of order with those of a later call.
    pub fn drain_all(&mut self, out: &mut Vec<TimedRecord>) {
        self.collect();
        self.hand_out(u64::MAX, out);
    }

    /// What was met so far.
    #[must_use]
    pub fn counts(&self) -> SideBandCounts {
        self.counts
    }

    /// Bytes of the smallest ring.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.cpus.iter().map(|on_cpu| on_cpu.ring.capacity()).min().unwrap_or(0)
    }

    fn collect(&mut self) {
        let Self { cpus, waiting, counts, .. } = self;
        for OnCpu { cpu, ring, .. } in cpus {
            let drained = ring.drain(|bytes| match record::parse(bytes) {
                Ok(Some((time_ns, record))) => {
                    if let record::Record::Lost(lost) = record {
                        counts.lost = counts.lost.saturating_add(lost);
                    }
                    // The kernel writes 0 for what has no number in our namespace, and -1 for what is gone already.
                    if matches!(record.pid(), Some(0 | u32::MAX)) {
                        counts.outside_namespace += 1;
                    } else {
                        waiting.push(TimedRecord { time_ns, cpu: *cpu, record });
                    }
                }
                Ok(None) => {}
                Err(record::Malformed) => counts.malformed += 1,
            });
            counts.malformed += u64::from(drained.malformed_bytes > 0);
        }
        // Stable: records of one CPU with the same time keep their order.
        waiting.sort_by_key(|record| record.time_ns);
    }

    fn hand_out(&mut self, up_to_ns: u64, out: &mut Vec<TimedRecord>) {
        let ready = self.waiting.partition_point(|record| record.time_ns <= up_to_ns);
        self.counts.records += ready as u64;
        out.extend(self.waiting.drain(..ready));
    }
}

fn is_too_large(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOMEM))
}
