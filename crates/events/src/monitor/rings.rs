//! The rings of a monitor: one for each CPU, owned by an event that counts nothing and records which threads begin, end and are renamed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_abi::numbers::{event_type, software};
use perf_abi::{EventAttr, Layout};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use sys::perf;
use sys::ring::Ring;

use super::error::MonitorError;
use super::opening::{Common, OpenFd, open_one, read_lost};
use super::place::{Place, Sources};

const NAME: &str = "software/dummy";
/// The number of the descriptor that ends waiting.
const WAKE: u64 = u64::MAX;

/// The ring of a CPU.
#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    ring: Ring,
    /// Its events, one for each place. The first owns the ring.
    events: Vec<OpenFd>,
    /// Those that were not waited for yet; the first is waited for.
    waiting: VecDeque<usize>,
}

/// All rings.
#[derive(Debug)]
pub(crate) struct Rings {
    cpus: Vec<CpuRing>,
    epoll: OwnedFd,
    wake: OwnedFd,
    pub common: Common,
    /// Of the records about threads.
    pub layout: Layout,
    read_format: u64,
}

impl Rings {
    /// Opens and maps them, disabled.
    pub fn open(
        sources: &Sources,
        cpus: &[u32],
        pages: usize,
        mut common: Common,
        mmaps: bool,
    ) -> Result<Self, MonitorError> {
        let places = sources.places()?;
        let system = |attempt| move |source: Errno| MonitorError::System { attempt, source: source.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll descriptor"))?;
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("make an eventfd"))?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(system("wait for an eventfd"))?;
        common.counts_lost = counts_lost(common, &places, cpus);
        let attr = attr(common, mmaps);
        let mut rings = Self {
            cpus: Vec::new(),
            epoll,
            wake,
            common,
            layout: Layout::of(&attr),
            read_format: attr.read_format,
        };
        for &cpu in cpus {
            rings.open_cpu(cpu, &attr, &places, pages)?;
        }
        if rings.cpus.is_empty() {
            return Err(match places.first().and_then(Place::thread) {
                Some(number) => MonitorError::NoSuchProcess { what: "thread", number },
                None => MonitorError::NoCpu,
            });
        }
        Ok(rings)
    }

    fn open_cpu(
        &mut self,
        cpu: u32,
        attr: &EventAttr,
        places: &[Place],
        pages: usize,
    ) -> Result<(), MonitorError> {
        let system = |attempt| move |source| MonitorError::System { attempt, source };
        let mut events: Vec<OpenFd> = Vec::new();
        let mut ring: Option<Ring> = None;
        for place in places {
            let fd = match open_one(attr, NAME, place, Some(cpu), None) {
                // The thread has ended, or the CPU is offline.
                Err(MonitorError::Open { source, .. } | MonitorError::Unsupported { source, .. })
                    if matches!(Errno::from_io_error(&source), Some(Errno::SRCH | Errno::NODEV)) =>
                {
                    continue;
                }
                opened => opened?,
            };
            match events.first() {
                None => {
                    let mapped = Ring::map(fd.as_fd(), pages);
                    ring = Some(mapped.map_err(|source| MonitorError::RingMemory { pages, cpu, source })?);
                }
                Some(owner) => perf::set_output(fd.as_fd(), owner.fd.as_fd())
                    .map_err(system("share the ring of a CPU"))?,
            }
            let id = perf::event_id(fd.as_fd()).map_err(system("ask for the number of an event"))?;
            events.push(OpenFd { fd, id, cpu, source: place.source, thread: place.thread(), lost: 0 });
        }
        if let Some(ring) = ring {
            let waiting = (0..events.len()).collect();
            let ring = CpuRing { cpu, ring, events, waiting };
            self.wait_for(&ring, self.cpus.len()).map_err(system("wait for a ring"))?;
            self.cpus.push(ring);
        }
        Ok(())
    }

    fn wait_for(&self, ring: &CpuRing, index: usize) -> io::Result<()> {
        let Some(event) = ring.waiting.front().and_then(|&at| ring.events.get(at)) else { return Ok(()) };
        let data = epoll::EventData::new_u64(index as u64);
        Ok(epoll::add(&self.epoll, &event.fd, data, epoll::EventFlags::IN)?)
    }

    /// The event that owns the ring of a CPU.
    pub fn owner(&self, cpu: u32) -> Option<BorrowedFd<'_>> {
        let ring = self.cpus.iter().find(|ring| ring.cpu == cpu)?;
        ring.events.first().map(|event| event.fd.as_fd())
    }

    /// The CPUs with a ring.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|ring| ring.cpu).collect()
    }

    /// The events that own rings or share them.
    pub fn events(&self) -> impl Iterator<Item = &OpenFd> {
        self.cpus.iter().flat_map(|ring| &ring.events)
    }

    /// Starts or stops the records about threads.
    pub fn switch(&self, on: bool) -> io::Result<()> {
        let switch = if on { perf::enable } else { perf::disable };
        self.events().map(|event| switch(event.fd.as_fd())).fold(Ok(()), io::Result::and)
    }

    /// A descriptor that can be read when there is something to do.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.epoll
    }

    /// A descriptor that ends [`wait`](Self::wait) when 8 bytes are written to it.
    pub fn waker(&self) -> &OwnedFd {
        &self.wake
    }

    /// Goes on with what `wait` told. False if all that is followed has ended.
    pub fn woken(&mut self, ready: &[(u64, bool)]) -> bool {
        for &(index, ended) in ready {
            if index == WAKE {
                let _nothing_to_read_is_fine = rustix::io::read(&self.wake, &mut [0; 8]);
                continue;
            }
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let Some(ring) = self.cpus.get_mut(at).filter(|_| ended) else { continue };
            if let Some(event) = ring.waiting.pop_front().and_then(|event| ring.events.get(event)) {
                let _closed_with_its_descriptor = epoll::delete(&self.epoll, &event.fd);
            }
            let Some(ring) = self.cpus.get(at) else { continue };
            let _it_is_polled_by_time_then = self.wait_for(ring, at);
        }
        self.cpus.iter().any(|ring| !ring.waiting.is_empty())
    }

    /// Passes all records with their CPU to `each`. Returns the bytes that made no sense.
    pub fn drain(&mut self, mut each: impl FnMut(u32, &[u8])) -> u64 {
        let drained = self.cpus.iter_mut().map(|ring| ring.ring.drain(|record| each(ring.cpu, record)));
        drained.map(|drained| drained.malformed_bytes).sum()
    }

    /// Lost records about threads since the last call, by CPU.
    pub fn newly_lost(&mut self) -> Vec<(u32, u64)> {
        let format = self.read_format;
        let lost = |ring: &mut CpuRing| {
            let lost = ring.events.iter_mut().map(|event| event.newly_lost(format)).sum();
            (ring.cpu, lost)
        };
        self.cpus.iter_mut().map(lost).filter(|(_, lost)| *lost > 0).collect()
    }
}

/// Waits until a ring of these has enough, something has ended, or the time is over: the numbers of those, and whether they ended.
pub(crate) fn wait(descriptor: BorrowedFd<'_>, timeout: std::time::Duration) -> Vec<(u64, bool)> {
    let timeout = Timespec::try_from(timeout).ok();
    let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
    let Ok((ready, _)) = epoll::wait(descriptor, &mut events, timeout.as_ref()) else { return Vec::new() };
    let ended = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
    let told = |event: &mut epoll::Event| {
        let (flags, data) = (event.flags, event.data);
        (data.u64(), flags.intersects(ended))
    };
    ready.iter_mut().map(told).collect()
}

fn attr(common: Common, mmaps: bool) -> EventAttr {
    let attr = EventAttr {
        kind: event_type::SOFTWARE,
        config: software::DUMMY,
        inherit: true,
        comm: true,
        comm_exec: true,
        task: true,
        mmap: mmaps,
        mmap2: mmaps,
        ..EventAttr::default()
    };
    common.complete(attr, false)
}

/// Whether the kernel tells the lost records of each event.
fn counts_lost(common: Common, places: &[Place], cpus: &[u32]) -> bool {
    let attr = attr(Common { counts_lost: true, ..common }, false);
    let opened = cpus
        .first()
        .zip(places.first())
        .and_then(|(&cpu, place)| open_one(&attr, NAME, place, Some(cpu), None).ok());
    opened.is_some_and(|fd| read_lost(fd.as_fd(), attr.read_format).is_some())
}
