//! Executable mappings that processes make, and on request threads that begin and end, as the kernel tells of them, from all CPUs, in
//! order.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use sys::clock::kernel_ns;
use sys::perf::{self, Attr};
use sys::ring::Ring;

use crate::cpus::PerCpu;
use crate::record::{self, TimedRecord};
use crate::set::is_offline;
use crate::spec::cpu_number;
use crate::{Error, Followed, Present};

/// Pages of each CPU's ring that hold about a thousand records.
pub const DEFAULT_RING_PAGES: usize = 32;

/// A record may become visible this much after its time stamp was taken. Younger ones wait for the next round, so that
/// none that is older can come after them.
const HOLD_BACK_NS: u64 = 1_000_000;

/// Between two looks whether an event runs.
const JUDGED_AFTER_NS: u64 = 100_000_000;
/// So much less than the time that has passed an event that runs may have run: its clock may be coarse,
const COARSE_NS: u64 = 50_000_000;
/// and another than ours, by this part.
const DRIFT: u64 = 100;

/// The largest record: its fixed part, and a path of `PATH_MAX` bytes.
const LARGEST_RECORD: usize = 4096 + 128;

const EVENT: &str = "software/dummy";

/// Counts of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideBandCounts {
    /// Records handed out.
    pub records: u64,
    /// Records that the kernel could not write because a ring was full, as far as it has said so: it does with the next
    /// record that it writes into that ring, which may be much later.
    pub lost: u64,
    /// How often a ring was found so full that records may be lost.
    pub full: u64,
    /// Records, or remains of a ring, that did not make sense.
    pub malformed: u64,
    /// Records about processes that are invisible in the PID namespace of this process; not handed out.
    pub outside_namespace: u64,
}

/// One event per CPU that counts nothing and records the executable mappings that processes make, and on request their threads.
#[derive(Debug)]
pub struct SideBand {
    cpus: PerCpu<OnCpu>,
    /// Of each ring.
    pages: usize,
    /// Threads that begin and end are recorded too.
    threads: bool,
    waiting: Vec<TimedRecord>,
    counts: SideBandCounts,
}

#[derive(Debug)]
struct OnCpu {
    /// Unmapped before the event is closed.
    ring: Ring,
    event: OwnedFd,
    /// When it was last looked whether the event runs.
    looked_ns: u64,
    /// For how long it had run then.
    enabled_ns: u64,
    /// Bytes of records at the last look.
    filled: usize,
}

impl OnCpu {
    /// Opens and starts it; none if the CPU is offline. The number of pages is halved until they may be locked.
    fn open(cpu: u32, pages: &mut usize, threads: bool) -> Result<Option<Self>, Error> {
        let attr = Attr {
            kind: perf::TYPE_SOFTWARE,
            config: perf::SW_DUMMY,
            sample_type: perf::SAMPLE_TIME,
            read_format: perf::FORMAT_TOTAL_TIME_ENABLED | perf::FORMAT_TOTAL_TIME_RUNNING,
            clockid: rustix::time::ClockId::Monotonic as i32,
            flags: perf::DISABLED
                | perf::MMAP
                | perf::MMAP2
                | perf::SAMPLE_ID_ALL
                | perf::USE_CLOCKID
                | perf::EXCLUDE_KERNEL
                | if threads { perf::TASK } else { 0 },
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
        let enabled = perf::enable(event.as_fd());
        enabled.map_err(|source| Error::Switch { action: "enable", cpu, source })?;
        Ok(Some(Self { ring, event, looked_ns: kernel_ns(), enabled_ns: 0, filled: 0 }))
    }

    /// Takes the records in the order in which they lie in the ring.
    fn collect(&mut self, cpu: u32, waiting: &mut Vec<TimedRecord>, counts: &mut SideBandCounts) {
        let mut filled = 0;
        let drained = self.ring.drain(|bytes| {
            filled += bytes.len();
            match record::parse(bytes) {
                Ok(Some((time_ns, record))) => {
                    if let record::Record::Lost(lost) = record {
                        counts.lost = counts.lost.saturating_add(lost);
                    }
                    // The kernel writes 0 for a process without a number in our namespace, and -1 for one that is gone.
                    if matches!(record.pid(), Some(0 | u32::MAX)) {
                        counts.outside_namespace += 1;
                    } else {
                        waiting.push(TimedRecord { time_ns, cpu, record });
                    }
                }
                Ok(None) => {}
                Err(record::Malformed) => counts.malformed += 1,
            }
        });
        counts.malformed += u64::from(drained.malformed_bytes > 0);
        let last = std::mem::replace(&mut self.filled, filled);
        counts.full += u64::from(may_have_been_full(self.ring.capacity(), last, filled));
    }

    /// Whether the kernel has ended the event. It takes the events off a CPU that goes offline and leaves them as if they had
    /// been disabled, for good: nothing tells of that but a time that stands still.
    fn has_ended(&mut self) -> bool {
        let passed_ns = kernel_ns().saturating_sub(self.looked_ns);
        if passed_ns < JUDGED_AFTER_NS {
            return false;
        }
        let Ok(count) = perf::read_count(self.event.as_fd()) else {
            // It is in a state from which it does not come back either.
            return true;
        };
        // After it was read, so that it is never expected to have run for longer than it could.
        self.looked_ns = kernel_ns();
        let ran_ns =
            count.enabled_ns.saturating_sub(std::mem::replace(&mut self.enabled_ns, count.enabled_ns));
        ran_ns + COARSE_NS + passed_ns / DRIFT < passed_ns
    }
}

impl SideBand {
    /// Opens the events of all processes on `cpus` and starts them. Each gets a ring of `pages` pages (rounded up to a
    /// power of two), or of as many as may be locked.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NoCpu`], [`Error::Ring`] or [`Error::Switch`]. Whatever was opened is closed then.
    pub fn open(cpus: &[u32], pages: usize) -> Result<Self, Error> {
        Self::open_with(cpus, pages, false)
    }

    /// As [`open`](Self::open), and threads that begin and end are recorded too.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_threads(cpus: &[u32], pages: usize) -> Result<Self, Error> {
        Self::open_with(cpus, pages, true)
    }

    fn open_with(cpus: &[u32], pages: usize, threads: bool) -> Result<Self, Error> {
        let mut pages = pages.clamp(1, 1 << 16).next_power_of_two();
        let opened = PerCpu::open(cpus, |cpu| OnCpu::open(cpu, &mut pages, threads))?;
        if opened.is_empty() {
            return Err(Error::NoCpu { event: EVENT.to_owned(), cpus: cpus.len() });
        }
        Ok(Self { cpus: opened, pages, threads, waiting: Vec::new(), counts: SideBandCounts::default() })
    }

    /// CPUs whose events have ended since they were opened, because the CPU was offline at least for a moment. If a caller opens
    /// all its other events later than these, and closes them together with these, none of them can end unnoticed.
    ///
    /// Each CPU is interrupted for a moment. A CPU that was checked less than 100 ms ago is left out.
    pub fn ended(&mut self) -> Vec<u32> {
        let ended = self.cpus.iter_mut().filter_map(|(cpu, on_cpu)| on_cpu.has_ended().then_some(cpu));
        ended.collect()
    }

    /// Closes the events of CPUs that have gone and opens events on CPUs that have come. Records of the former are still handed
    /// out.
    pub fn follow(&mut self, now: &Present) -> Followed {
        let Self { cpus, pages, threads, waiting, counts } = self;
        let close = |cpu, mut on_cpu: OnCpu| on_cpu.collect(cpu, waiting, counts);
        cpus.follow(now, close, |cpu| OnCpu::open(cpu, pages, *threads))
    }

    /// The CPUs on which it records.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.cpus()
    }

    /// Appends the records since the last call, up to a millisecond ago. They are in order of time, also over several calls and
    /// CPUs. Returns the time up to which no record is missing.
    pub fn drain(&mut self, out: &mut Vec<TimedRecord>) -> u64 {
        let up_to = kernel_ns().saturating_sub(HOLD_BACK_NS);
        self.collect();
        self.hand_out(up_to, out);
        up_to
    }

    /// Appends all records since the last call. For the end: records of the last millisecond may come
    /// out of order with those of a later call.
    pub fn drain_all(&mut self, out: &mut Vec<TimedRecord>) {
        self.collect();
        self.hand_out(u64::MAX, out);
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> SideBandCounts {
        self.counts
    }

    /// Bytes of the smallest ring.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.cpus.iter().map(|(_, on_cpu)| on_cpu.ring.capacity()).min().unwrap_or(0)
    }

    fn collect(&mut self) {
        let Self { cpus, waiting, counts, .. } = self;
        for (cpu, on_cpu) in cpus.iter_mut() {
            on_cpu.collect(cpu, waiting, counts);
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

/// Whether a ring may have been too full for a record at some time. While it is drained, the kernel appends more records. So it
/// never held more than two drains in a row found together.
fn may_have_been_full(capacity: usize, last: usize, now: usize) -> bool {
    last + now > capacity.saturating_sub(LARGEST_RECORD).max(capacity / 2)
}

fn is_too_large(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PAUSE: Duration = Duration::from_millis(150);

    /// Ends the events of a CPU as the kernel does when the CPU goes offline.
    fn end(side_band: &SideBand, cpu: u32) {
        perf::disable(side_band.cpus.get(cpu).unwrap().event.as_fd()).unwrap();
    }

    #[test]
    fn a_cpu_that_went_and_came_is_noticed_and_recorded_again() {
        let online = crate::online_cpus().unwrap();
        let mut side_band = match SideBand::open(&online, DEFAULT_RING_PAGES) {
            Err(error) if error.is_permission() => testkit::skip!("{error}"),
            opened => opened.unwrap(),
        };
        assert_eq!(side_band.ended(), [0; 0], "too early to tell");
        std::thread::sleep(PAUSE);
        assert_eq!(side_band.ended(), [0; 0]);
        std::thread::sleep(PAUSE);
        assert_eq!(side_band.ended(), [0; 0], "what runs goes on");
        let last = *online.last().unwrap();
        // From here on the rings have room for records of other processes.
        let mut records = Vec::new();
        side_band.drain_all(&mut records);
        let run_there = move || {
            let mut cpus = rustix::thread::CpuSet::new();
            cpus.set(last as usize);
            rustix::thread::sched_setaffinity(None, &cpus)?;
            let mut child = std::process::Command::new("/bin/true").spawn()?;
            child.wait()?;
            std::io::Result::Ok(child.id())
        };
        let ran = std::thread::spawn(run_there).join().unwrap();
        end(&side_band, last);
        let mut ended = Vec::new();
        testkit::until("its end is noticed", || {
            ended = side_band.ended();
            !ended.is_empty()
        });
        assert_eq!(ended, [last]);

        let followed = side_band.follow(&Present { online: online.clone(), ended });
        assert_eq!((followed.closed, followed.opened), (vec![last], vec![last]));
        assert!(followed.missing.is_empty());
        std::thread::sleep(PAUSE);
        assert_eq!(side_band.ended(), [0; 0], "the new one runs");
        side_band.drain_all(&mut records);
        let is_before =
            |record: &TimedRecord| record.cpu == last && record.record.pid() == ran.as_ref().ok().copied();
        let lost = side_band.counts().lost;
        assert!(
            ran.is_err() || lost > 0 || records.iter().any(is_before),
            "what was recorded on a CPU that went stays"
        );
        assert_eq!(side_band.cpus().collect::<Vec<_>>(), online);
    }
    #[test]
    fn a_ring_that_was_almost_full_in_two_looks_may_have_lost_records() {
        let capacity = 128 << 10;
        assert!(!may_have_been_full(capacity, 0, 100_000));
        assert!(may_have_been_full(capacity, 0, capacity - 200));
        assert!(may_have_been_full(capacity, 70_000, 60_000), "the kernel wrote while the first were read");
        assert!(may_have_been_full(4096, 1100, 1000) && !may_have_been_full(4096, 1000, 1000));
    }
}
