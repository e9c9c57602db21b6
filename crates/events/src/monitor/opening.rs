//! Opens an event at all places on all CPUs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_abi::numbers::{event_type, read_format, sample};
use perf_abi::{CounterGroup, EventAttr, InvalidAttr, SIZE};
use rustix::io::Errno;
use sys::perf;

use super::error::MonitorError;
use super::place::{Place, PlaceKind, Sources};

/// Longest filter that the kernel takes.
const MAX_FILTER: usize = 4095;
/// Times that processes and their threads are read again until none is new.
pub(crate) const ROUNDS: usize = 20;

/// What all events of a monitor have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// The kernel's number of the clock.
    pub clockid: i32,
    /// Bytes of a ring.
    pub ring_bytes: usize,
    /// The kernel tells the lost records of each event (6.0).
    pub counts_lost: bool,
}

/// An event at one place on one CPU.
#[derive(Debug)]
pub(crate) struct OpenFd {
    pub fd: OwnedFd,
    /// The kernel's number of it.
    pub id: u64,
    pub cpu: u32,
    pub source: usize,
    /// The thread that it was opened for.
    pub thread: Option<u32>,
    /// Lost records that were told already.
    pub lost: u64,
}

/// An event at all places.
#[derive(Debug)]
pub(crate) struct Opened {
    pub fds: Vec<OpenFd>,
    /// Threads appeared while it was opened. They may have inherited it too.
    pub ambiguous: bool,
}

impl Common {
    /// Adds to an attribute what the monitor needs of every event.
    pub fn complete(&self, mut attr: EventAttr, is_tracepoint: bool) -> EventAttr {
        attr.sample_type |= sample::IDENTIFIER | sample::STREAM_ID | sample::TID | sample::TIME | sample::CPU;
        if is_tracepoint {
            attr.sample_type |= sample::RAW;
        }
        (attr.sample_id_all, attr.disabled) = (true, true);
        (attr.use_clockid, attr.clockid) = (true, self.clockid);
        if attr.wakeup_events == 0 && !attr.watermark {
            attr.watermark = true;
            attr.wakeup_watermark = u32::try_from(self.ring_bytes / 4).unwrap_or(u32::MAX);
        }
        if self.counts_lost {
            attr.read_format |= read_format::LOST;
        }
        attr
    }
}

/// Opens one event at one place on one CPU, or for a thread on all, with a smaller attribute if the kernel asks for that. With a `leader` it
/// is counted whenever that is.
pub(crate) fn open_one(
    attr: &EventAttr,
    name: &str,
    place: &Place,
    cpu: Option<u32>,
    leader: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, MonitorError> {
    let bytes = perf_abi::encode(attr)?;
    let open = |bytes: &mut [u8]| {
        perf::open_bytes(bytes, place.pid(), cpu.map_or(-1, crate::spec::cpu_number), leader, place.flags())
    };
    let mut sent = bytes;
    let result = match open(&mut sent) {
        Err(error) if is(&error, Errno::TOOBIG) => {
            let told =
                sent.get(4..8).and_then(|size| size.try_into().ok()).map_or(SIZE as u32, u32::from_ne_bytes);
            let mut shorter = perf_abi::shorten(&bytes, told as usize)?;
            open(&mut shorter)
        }
        result => result,
    };
    result.map_err(|source| {
        let samples = attr.sample_period > 0 || attr.sample_freq > 0;
        let counts = EventAttr { sample_period: 0, sample_freq: 0, freq: false, ..attr.clone() };
        if samples
            && is(&source, Errno::INVAL)
            && attr.kind > event_type::BREAKPOINT
            && open_one(&counts, name, place, cpu, leader).is_ok()
        {
            return MonitorError::OnlyCounted { event: name.to_owned() };
        }
        refused(attr, name, place, cpu, source)
    })
}

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

fn refused(attr: &EventAttr, name: &str, place: &Place, cpu: Option<u32>, source: io::Error) -> MonitorError {
    if let Some(error) = Sources::refusal(place, &source) {
        return error;
    }
    let errno = Errno::from_io_error(&source);
    if errno == Some(Errno::INVAL) && attr.inherit && attr.sample_type & sample::READ != 0 {
        let reason = "this kernel has no values in samples of inherited events";
        return InvalidAttr { first: "inherit", second: "sample_type", reason }.into();
    }
    match errno {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => {
            MonitorError::Unsupported { event: name.to_owned(), source }
        }
        _ => MonitorError::Open { event: name.to_owned(), target: place.describe(), cpu, source },
    }
}

/// Whether the thread has ended or the CPU has gone meanwhile.
pub(crate) fn is_gone(error: &MonitorError, place: &Place, cpu: u32) -> bool {
    match (error, &place.kind) {
        _ if error.is_end_of_thread() => true,
        (MonitorError::Unsupported { source, .. }, PlaceKind::System | PlaceKind::Cgroup(_)) => {
            is(source, Errno::NODEV) && !crate::online_cpus().is_ok_and(|cpus| cpus.contains(&cpu))
        }
        _ => false,
    }
}

/// Opens an event everywhere, disabled, with its records in the rings of `ring_of`, and its filter set.
pub(crate) fn open_all<'a>(
    attr: &EventAttr,
    name: &str,
    filter: Option<&str>,
    sources: &Sources,
    cpus: &[u32],
    ring_of: impl Fn(u32) -> Option<BorrowedFd<'a>>,
) -> Result<Opened, MonitorError> {
    let filter = filter.map(|text| filter_text(name, text)).transpose()?;
    let mut opened = Opened { fds: Vec::new(), ambiguous: false };
    let mut places = sources.places()?;
    let mut from = 0;
    for _ in 0..ROUNDS {
        for place in places.get(from..).unwrap_or_default() {
            for &cpu in cpus {
                let Some(ring) = ring_of(cpu) else { continue };
                let fd = match open_one(attr, name, place, Some(cpu), None) {
                    Err(error) if is_gone(&error, place, cpu) => continue,
                    opened => opened?,
                };
                if let Some((text, filter)) = &filter {
                    set_filter(&fd, name, text, filter)?;
                }
                let system = |attempt| move |source| MonitorError::System { attempt, source };
                perf::set_output(fd.as_fd(), ring)
                    .map_err(system("send records of an event to the ring of its CPU"))?;
                let id = perf::event_id(fd.as_fd()).map_err(system("ask for the number of an event"))?;
                opened.fds.push(OpenFd {
                    fd,
                    id,
                    cpu,
                    source: place.source,
                    thread: place.thread(),
                    lost: 0,
                });
            }
        }
        from = places.len();
        let new = sources.new_threads(&places);
        if new.is_empty() {
            break;
        }
        opened.ambiguous = true;
        places.extend(new);
    }
    if opened.fds.is_empty() {
        return Err(match places.first().and_then(Place::thread) {
            Some(tid) => MonitorError::NoSuchProcess { what: "thread", number: tid },
            None => MonitorError::NoCpu,
        });
    }
    Ok(opened)
}

pub(crate) fn filter_text(event: &str, text: &str) -> Result<(String, CString), MonitorError> {
    let refuse = |reason: &str| MonitorError::Filter {
        event: event.to_owned(),
        text: text.chars().take(200).collect(),
        reason: reason.to_owned(),
    };
    if text.len() > MAX_FILTER {
        return Err(refuse("it is longer than 4095 bytes"));
    }
    CString::new(text).map(|filter| (text.to_owned(), filter)).map_err(|_| refuse("it contains a NUL byte"))
}

pub(crate) fn set_filter(
    fd: &OwnedFd,
    event: &str,
    text: &str,
    filter: &CString,
) -> Result<(), MonitorError> {
    perf::set_filter(fd.as_fd(), filter).map_err(|source| {
        let reason = match Errno::from_io_error(&source) {
            Some(Errno::INVAL) => {
                "the kernel does not understand it; it has comparisons of fields, as in `prev_pid > 100 && next_comm ~ \"a*\"`; \
                 `perf-agent events format EVENT` lists the fields"
                    .to_owned()
            }
            _ => source.to_string(),
        };
        MonitorError::Filter { event: event.to_owned(), text: text.to_owned(), reason }
    })
}

impl OpenFd {
    /// Lost records since the last call; none if the kernel does not tell.
    pub fn newly_lost(&mut self, format: u64) -> u64 {
        let Some(lost) = read_lost(self.fd.as_fd(), format) else { return 0 };
        lost.saturating_sub(std::mem::replace(&mut self.lost, lost))
    }
}

/// The records of an event that found no room.
pub(crate) fn read_lost(fd: BorrowedFd<'_>, format: u64) -> Option<u64> {
    if format & read_format::LOST == 0 || format & read_format::GROUP != 0 {
        return None;
    }
    let mut bytes = [0; 64];
    let len = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut bytes)).ok()?;
    CounterGroup::parse(bytes.get(..len)?, format).ok()?.values.first()?.lost
}
