//! What a monitor delivers.

use std::any::Any;
use std::sync::Arc;

use perf_abi::{Header, RecordBody, Sample, SampleId};
use tracepoints::{Field, Format, Value};

/// A registration: counted from 1, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u64);

/// One thing that happened.
#[derive(Debug)]
#[non_exhaustive]
pub struct Item<'a> {
    /// Its registration; none for records about threads.
    pub event: Option<EventId>,
    /// When and where.
    pub meta: Meta,
    /// What.
    pub body: Body<'a>,
}

/// When and where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// Which of the monitor's sources saw it, in the order in which they were given.
    pub source: usize,
    /// The header of the record.
    pub header: Header,
    /// The fields that the kernel gives with every record.
    pub id: SampleId,
    /// On the monitor's clock, in ns.
    pub time_ns: u64,
    /// The same moment since 1970, in ns.
    pub wall_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// It arrived behind later ones, which were delivered already.
    pub late: bool,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Body<'a> {
    /// An event without a decoder.
    Event(Fields<'a>),
    /// An event with a decoder: its result. An error does not end the run.
    Decoded(Result<Decoded, DecodeError>),
    /// So many of the event were lost on the CPU, because nobody read the ring in time. Without an event: records about threads.
    Lost(u64),
    /// Another record: a thread that began, ended or was renamed, a mapping, a throttled event.
    Record(RecordBody<'a>),
}

/// What a decoder makes of an event.
pub type Decoded = Box<dyn Any + Send>;
/// Why a decoder makes nothing of it.
pub type DecodeError = Box<dyn std::error::Error + Send + Sync>;
/// Makes a value of an event.
pub type Decoder = Box<dyn FnMut(&Fields<'_>) -> Result<Decoded, DecodeError> + Send>;

/// The sample of an event, and its fields if it is a tracepoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fields<'a> {
    /// All parts of the sample.
    pub sample: Box<Sample<'a>>,
    /// The format of the tracepoint.
    pub format: Option<&'a Arc<Format>>,
}

impl<'a> Fields<'a> {
    /// The field with this name. For many events resolve the [`Field`] once, with [`Format::field`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.format?.field(name)?.value(self.sample.raw?)
    }

    /// All fields of the tracepoint in order, with their values; none where the record is too short.
    pub fn all(&self) -> impl Iterator<Item = (&'a Field, Option<Value<'a>>)> + use<'a> {
        let raw = self.sample.raw.unwrap_or_default();
        self.format.into_iter().flat_map(|format| &format.fields).map(move |field| (field, field.value(raw)))
    }
}
