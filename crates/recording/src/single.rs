//! Single samples: each occurrence of an event by itself, where that was asked for.

use serde::{Deserialize, Serialize};

use crate::count::TaskStackId;
use crate::event::EventId;

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Single {
    /// When, in ns from the begin of the recording's span. The end of the span is not exact to the microsecond: a sample may lie a little
    /// behind it. It is negative if the stack of a sample became known after the interval in which the sample was taken.
    pub at_ns: i64,
    /// The CPU.
    pub cpu: u32,
    /// The thread.
    pub tid: u32,
    /// The event, whose schema says what the values are.
    pub event: EventId,
    /// Where it happened.
    pub stack: TaskStackId,
    /// As many values as the event's schema has.
    pub values: Vec<u64>,
    /// The stack that ended a wait, if the counts have the wait under it too. A file has it in a section of its own.
    #[serde(skip)]
    pub waker: Option<TaskStackId>,
}

/// The single samples of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Singles {
    /// In the order of their times.
    pub samples: Vec<Single>,
    /// Samples that are in the counts but not here: they exceeded a limit of the recording, or did not fit into the ring of the kernel.
    pub lost: u64,
}
