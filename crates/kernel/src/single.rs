//! Single samples: a message for each sample, in addition to the sums.

use crate::attached::SampledAt;
use crate::headers::Header;
use crate::sections::{Sections, VALUE_SLOTS};
use crate::sum_key::{Event, State};

/// A single sample. The sums have it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SingleSample {
    /// Key of the sums that the sample was added to.
    pub hash: u64,
    /// Process, in the agent's PID namespace.
    pub pid: u32,
    /// Thread, in the agent's PID namespace.
    pub tid: u32,
    /// The event that was sampled.
    pub event: Event,
    /// The state of the thread.
    pub state: State,
    /// When it was taken (CLOCK_MONOTONIC).
    pub time_ns: u64,
    /// Where it was taken.
    pub at: SampledAt,
    /// The interrupted pc, in user code or in the kernel; 0 for an interval.
    pub pc: u64,
    /// Of an interval: the key of the stack that ended it, if its sums are those of both stacks.
    pub waker: Option<u64>,
    /// By the schema of the event; 0 in slots that the event does not use.
    pub values: [u64; VALUE_SLOTS],
}

impl SingleSample {
    pub(crate) fn new(header: &Header, sections: &Sections<'_>) -> Option<Self> {
        let mut values = [0; VALUE_SLOTS];
        for (value, word) in values.iter_mut().zip(sections.values?) {
            *value = u64::from_ne_bytes(*word);
        }
        let event = Event::try_from(u32::from(header.event)).ok()?;
        let (pc, waker) = match event {
            Event::Scheduler => (0, Some(header.exec_id).filter(|key| *key != 0)),
            _ => (header.exec_id, None),
        };
        Some(Self {
            hash: header.hash,
            pid: header.pid,
            tid: header.tid,
            event,
            state: State::try_from(u32::from(header.state)).ok()?,
            time_ns: header.time,
            at: sections.sampled_at?,
            pc,
            waker,
            values,
        })
    }
}
