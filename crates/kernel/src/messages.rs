//! The messages of the programs: new stacks, requests for mappings of processes, and process life.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::Error;
use crate::attached::{Attached, SampledAt};
use crate::frame::Frame;
use crate::headers::{
    Header, MESSAGE_PROC, MESSAGE_RAW, MESSAGE_SAMPLE, MESSAGE_STACK, MESSAGE_STILL_ASLEEP, MESSAGE_WOKEN,
    REGISTERS, STACK_POINTER,
};
use crate::life::{self, Life, LifeEvent, MESSAGE_LIFE};
use crate::process_record::PROC_WAKER;
use crate::sections::Sections;
use crate::single::SingleSample;
use crate::sum_key::{Event, State};
use crate::walk_end::WalkEnd;

/// One message of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A new stack.
    Stack(StackMessage),
    /// The mappings of this process are unknown or out of date.
    Process {
        /// Its number.
        pid: u32,
        /// The process is not recorded; it only wakes recorded threads.
        waker_only: bool,
    },
    /// A pair of a blocked stack and the stack of the waker that ended the wait; the sums of such intervals come under
    /// `hash`.
    Woken {
        /// Key of the sums.
        hash: u64,
        /// Key of the blocked stack.
        blocked: u64,
        /// Key of the waker's stack.
        waker: u64,
    },
    /// A thread has not run since its stack was requested.
    StillAsleep {
        /// The hash of that stack.
        hash: u64,
    },
    /// A sample whose stack could not be walked yet.
    Raw(RawStack),
    /// A record of process life.
    Life(Life),
    /// A single sample. [`Kernel::take_samples`](crate::Kernel::take_samples) returns these, apart from the other messages.
    Sample(SingleSample),
}

impl Message {
    /// The time of the event in the message. Stacks and process life have one, except [`LifeEvent::LookAgain`], whose time
    /// lies in the future.
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Stack(stack) => Some(stack.time_ns),
            Self::Raw(raw) => Some(raw.stack.time_ns),
            Self::Life(life) if life.event != LifeEvent::LookAgain => Some(life.time_ns),
            _ => None,
        }
    }
}

/// A sample whose stack could not be walked yet, with the data to walk it later. If its hash is not 0, its sums come under
/// that hash; else it counts as one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawStack {
    /// The sample without user frames. Its `end` is the end of the attempted walk.
    pub stack: StackMessage,
    /// User registers by DWARF number.
    pub registers: [u64; REGISTERS],
    /// User pc.
    pub pc: u64,
    /// Where the sample was taken. Without meaning for a thread that was asleep.
    pub at: SampledAt,
    /// A copy of the user stack, from the red zone on.
    bytes: Vec<u8>,
    /// One bit for each page of the copy that was not readable.
    holes: u64,
}

/// `SMALLEST_PAGE` of `bpf/walk_state.h`.
const PAGE: u64 = 4096;
/// `RAW_STACK_BYTES` of `bpf/abi/raw_stack.h`.
const RAW_STACK_BYTES: usize = 60 << 10;
/// `RAW_STACK_END` of `bpf/abi/raw_stack.h`: the copy ends in front of this many pages that are not readable.
const UNREADABLE_PAGES: u64 = 4;
/// `RED_ZONE` of `bpf/abi/raw_stack.h`.
const RED_ZONE: u64 = 128;

impl RawStack {
    /// The word of the stack at an address; none if it was not readable.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let bottom = self.registers[STACK_POINTER].wrapping_sub(RED_ZONE);
        let at = address.checked_sub(bottom)?;
        let piece = |address: u64| address / PAGE - bottom / PAGE;
        let hole = |address: u64| self.holes.checked_shr(piece(address) as u32).unwrap_or(0) & 1 == 1;
        if hole(address) || hole(address.checked_add(7)?) {
            return None;
        }
        Some(u64::from_ne_bytes(*self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?))
    }

    /// Number of stack bytes in the copy.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the stack is longer than the copy, which ends when the next page does not fit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.bytes.len() + 2 * PAGE as usize > RAW_STACK_BYTES
    }

    /// Whether the memory at an address was copied, or could not be. Other memory may be readable: that behind the end of a copy
    /// that is cut, and other stacks.
    #[must_use]
    pub fn was_tried(&self, address: u64) -> bool {
        let tried =
            if self.is_cut() { self.len() as u64 } else { self.len() as u64 + UNREADABLE_PAGES * PAGE };
        address.checked_sub(self.bottom()).is_some_and(|at| at < tried)
    }

    /// Address of the first byte of the copy.
    #[must_use]
    pub fn bottom(&self) -> u64 {
        self.registers[STACK_POINTER].wrapping_sub(RED_ZONE)
    }

    /// Sets the stack bytes, read from the process from [`Self::bottom`] on.
    pub fn fill(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        self.holes = 0;
    }

    /// Whether the copy is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A new stack; its sums come under `hash`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackMessage {
    /// Key of the sums.
    pub hash: u64,
    /// Process, in the agent's PID namespace.
    pub pid: u32,
    /// Thread, in the agent's PID namespace.
    pub tid: u32,
    /// See `KernelProcess::exec_id`.
    pub exec_id: u64,
    /// How the walk of the user stack ended.
    pub end: WalkEnd,
    /// The event that is counted.
    pub event: Event,
    /// The state of the thread in which the stack was taken.
    pub state: State,
    /// Name of the thread.
    pub thread: String,
    /// When the stack was taken (CLOCK_MONOTONIC).
    pub time_ns: u64,
    /// Kernel addresses, leaf first.
    pub kernel: Vec<u64>,
    /// User frames, leaf first.
    pub user: Vec<Frame>,
    /// What else the message tells of the stack.
    pub attached: Box<Attached>,
}

/// Decodes the messages that an iterator wrote one after the other.
pub(crate) fn decode_all(mut bytes: &[u8]) -> Option<Vec<Message>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = Header::split(bytes)?;
        let (sections, rest) = rest.split_at_checked(header.bytes as usize)?;
        messages.push(decode(&header, &Sections::split(sections)?)?);
        bytes = rest;
    }
    Some(messages)
}

/// Decodes a message as it lies in the ring. None: it is not a message of the programs.
#[must_use]
pub fn decode_message(bytes: &[u8]) -> Option<Message> {
    decode_one(bytes).map(|(message, _)| message)
}

/// Decodes the bytes of one message. Returns also how many of its sections are of unknown kinds.
fn decode_one(bytes: &[u8]) -> Option<(Message, u64)> {
    if bytes.first_chunk().map(|kind| u32::from_ne_bytes(*kind)) == Some(MESSAGE_LIFE) {
        return Some((Message::Life(life::decode(bytes)?), 0));
    }
    let (header, rest) = Header::split(bytes)?;
    let sections = Sections::split(rest.get(..header.bytes as usize)?)?;
    Some((decode(&header, &sections)?, sections.skipped))
}

fn decode(header: &Header, sections: &Sections<'_>) -> Option<Message> {
    match header.kind {
        MESSAGE_PROC => {
            Some(Message::Process { pid: header.pid, waker_only: header.state & PROC_WAKER != 0 })
        }
        MESSAGE_WOKEN => {
            let [blocked, waker] = sections.woken?;
            Some(Message::Woken { hash: header.hash, blocked, waker })
        }
        MESSAGE_SAMPLE => Some(Message::Sample(SingleSample::new(header, sections)?)),
        MESSAGE_STILL_ASLEEP => Some(Message::StillAsleep { hash: header.hash }),
        MESSAGE_STACK => {
            let native = sections.native.iter().rev();
            let user = native.map(|word| Frame::from_raw(u64::from_ne_bytes(*word))).collect();
            Some(Message::Stack(stack(header, sections, user)?))
        }
        MESSAGE_RAW => {
            let (registers, copied) = (sections.registers?, sections.stack.unwrap_or_default());
            Some(Message::Raw(RawStack {
                stack: stack(header, sections, Vec::new())?,
                registers: registers.at,
                pc: registers.pc,
                at: sections.sampled_at.unwrap_or_default(),
                bytes: copied.bytes.to_vec(),
                holes: copied.holes,
            }))
        }
        _ => None,
    }
}

fn stack(header: &Header, sections: &Sections<'_>, user: Vec<Frame>) -> Option<StackMessage> {
    Some(StackMessage {
        hash: header.hash,
        pid: header.pid,
        tid: header.tid,
        exec_id: header.exec_id,
        end: WalkEnd::try_from(header.end).ok()?,
        state: State::try_from(u32::from(header.state)).ok()?,
        event: Event::try_from(u32::from(header.event)).ok()?,
        thread: header.thread(),
        time_ns: header.time,
        kernel: sections.kernel.iter().map(|word| u64::from_ne_bytes(*word)).collect(),
        user,
        attached: Box::new(sections.attached()?),
    })
}

/// The reading end of the ring.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    messages: Vec<Message>,
    /// Single samples.
    samples: Vec<SingleSample>,
    /// Messages that could not be decoded, and sections of unknown kinds.
    refused: u64,
    skipped: u64,
}

impl Received {
    fn take_in(&mut self, bytes: &[u8]) {
        match decode_one(bytes) {
            Some((message, skipped)) => {
                self.skipped += skipped;
                match message {
                    Message::Sample(sample) => self.samples.push(sample),
                    message => self.messages.push(message),
                }
            }
            None => self.refused += 1,
        }
    }
}

impl Ring {
    pub(crate) fn new(map: &MapHandle) -> Result<Self, Error> {
        let failed = |source| Error::Map { action: "read", map: "ring", source };
        let received = Arc::new(Mutex::new(Received::default()));
        let sink = Arc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                sink.lock().unwrap_or_else(PoisonError::into_inner).take_in(bytes);
                0
            })
            .map_err(failed)?;
        Ok(Self { ring: builder.build().map_err(failed)?, received })
    }

    /// Takes all messages out of the ring. Single samples wait for [`Self::samples`].
    pub(crate) fn receive(&mut self) -> Result<Vec<Message>, Error> {
        let mut received = self.consume()?;
        let messages = std::mem::take(&mut received.messages);
        let (refused, skipped) =
            (std::mem::take(&mut received.refused), std::mem::take(&mut received.skipped));
        if refused + skipped > 0 {
            tracing::error!(target: "perfagent", refused, skipped, "unknown messages and sections in the ring");
        }
        Ok(messages)
    }

    /// Takes all single samples out of the ring. Other messages wait for [`Self::receive`].
    pub(crate) fn samples(&self) -> Result<Vec<SingleSample>, Error> {
        Ok(std::mem::take(&mut self.consume()?.samples))
    }

    fn consume(&self) -> Result<MutexGuard<'_, Received>, Error> {
        self.ring.consume().map_err(|source| Error::Map { action: "read", map: "ring", source })?;
        Ok(self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
