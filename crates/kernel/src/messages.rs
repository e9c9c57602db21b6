//! The messages of the programs: new stacks, requests for mappings of processes, and process life.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::Error;
use crate::attached::Attached;
use crate::code_message::CodeMessage;
use crate::frame::{self, Frame};
use crate::headers::{
    Header, MESSAGE_CODE, MESSAGE_INTERPRETED, MESSAGE_LOCK, MESSAGE_PROC, MESSAGE_RAW, MESSAGE_SAMPLE,
    MESSAGE_STACK, MESSAGE_STACK_PART, MESSAGE_STILL_ASLEEP, MESSAGE_WOKEN,
};
use crate::life::{self, Life, LifeEvent, MESSAGE_LIFE};
use crate::lock_message::LockMessage;
use crate::process_record::{PROC_NEW, PROC_WAKER};
use crate::raw_stack::{Copied, RawStack};
use crate::sections::Sections;
use crate::single::SingleSample;
use crate::stack_message::StackMessage;
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
        /// The programs have no mappings of it at all.
        is_new: bool,
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
    /// What waits for a lock have in common whose sums come under one key.
    Lock(LockMessage),
    /// A thread has not run since its stack was requested.
    StillAsleep {
        /// The hash of that stack.
        hash: u64,
    },
    /// A sample whose stack could not be walked yet.
    Raw(RawStack),
    /// A record of process life.
    Life(Life),
    /// What belongs to the next [`Message::Raw`] of a thread, which [`Kernel::receive`](crate::Kernel::receive) puts into it.
    StackPart(StackPart),
    /// A code object of an interpreter.
    Code(CodeMessage),
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

/// A part of a stack that is sent unwalked, by a message of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackPart {
    tid: u32,
    time_ns: u64,
    content: PartContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PartContent {
    /// The bytes where the thread began, and their address.
    Begin { start: u64, bytes: Copied },
    /// Frames of an interpreter.
    Interpreted(Box<Attached>),
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
            let (waker_only, is_new) = (header.state & PROC_WAKER != 0, header.state & PROC_NEW != 0);
            Some(Message::Process { pid: header.pid, waker_only, is_new })
        }
        MESSAGE_WOKEN => {
            let [blocked, waker] = sections.woken?;
            Some(Message::Woken { hash: header.hash, blocked, waker })
        }
        MESSAGE_LOCK => Some(Message::Lock(LockMessage::new(header, sections.lock?)?)),
        MESSAGE_SAMPLE => Some(Message::Sample(SingleSample::new(header, sections)?)),
        MESSAGE_STILL_ASLEEP => Some(Message::StillAsleep { hash: header.hash }),
        MESSAGE_STACK => {
            let native = sections.native.iter().rev();
            let user = native.map(|word| Frame::from_raw(u64::from_ne_bytes(*word))).collect();
            Some(Message::Stack(stack(header, sections, user)?))
        }
        MESSAGE_RAW => {
            let (registers, copied) = (sections.registers?, Copied::of(sections.stack.unwrap_or_default()));
            let at = sections.sampled_at.unwrap_or_default();
            let stack = stack(header, sections, Vec::new())?;
            let value = sections
                .values
                .and_then(|values| values.get(1))
                .map_or(0, |value| u64::from_ne_bytes(*value));
            let raw = RawStack::new(stack, registers.at, frame::address(registers.pc), at, copied);
            Some(Message::Raw(raw.with_value(value)))
        }
        MESSAGE_STACK_PART => Some(Message::StackPart(StackPart {
            tid: header.tid,
            time_ns: header.time,
            content: PartContent::Begin { start: header.hash, bytes: Copied::of(sections.stack?) },
        })),
        MESSAGE_INTERPRETED => Some(Message::StackPart(StackPart {
            tid: header.tid,
            time_ns: header.time,
            content: PartContent::Interpreted(Box::new(sections.attached()?)),
        })),
        MESSAGE_CODE => Some(Message::Code(CodeMessage::new(header, sections.code_object?)?)),
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

/// Parts of stacks that wait for the rest. It follows at once from the same CPU, unless the ring is full.
const MAX_PARTS: usize = 64;

#[derive(Default)]
struct Received {
    messages: Vec<Message>,
    /// The oldest first.
    parts: VecDeque<StackPart>,
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
                    Message::StackPart(part) => {
                        if self.parts.len() == MAX_PARTS {
                            self.parts.pop_front();
                        }
                        self.parts.push_back(part);
                    }
                    Message::Raw(raw) => {
                        let raw = self.with_parts(raw);
                        self.messages.push(Message::Raw(raw));
                    }
                    message => self.messages.push(message),
                }
            }
            None => self.refused += 1,
        }
    }

    fn with_parts(&mut self, mut raw: RawStack) -> RawStack {
        let raw_is = (raw.stack.tid, raw.stack.time_ns);
        let of_it = |part: &StackPart| (part.tid, part.time_ns) == raw_is;
        while let Some(part) = self.parts.iter().position(of_it).and_then(|at| self.parts.remove(at)) {
            match part.content {
                PartContent::Begin { start, bytes } => raw.add_begin(start, bytes),
                PartContent::Interpreted(attached) => {
                    raw.stack.attached.interpreted = attached.interpreted;
                    raw.stack.attached.interpreted_walk = attached.interpreted_walk;
                }
            }
        }
        raw
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
