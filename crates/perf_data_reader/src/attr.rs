//! What was recorded: the `perf_event_attr` of each event, with its name and its ids.

use std::collections::HashMap;
use std::io::{Read, Seek};

use crate::budget::{Budget, Full};
use crate::bytes::{Bytes, u64_at};
use crate::error::Error;
use crate::header::Sections;
use crate::source::{Section, Source};

/// What errors call them.
const EVENTS: &str = "the list of events";
/// Bytes that an id takes for each of its bytes.
const ID: usize = 4;
/// Events of a file at most.
const MAX_EVENTS: u64 = 1024;
/// Bytes of all ids of one event at most: an id for each CPU or thread.
const MAX_IDS: u64 = 8 << 20;
/// Bytes of a `perf_event_attr` up to `sample_period`, `sample_regs_intr`, and at most.
const MIN_SIZE: u64 = 64;
const MAX_SIZE: u64 = 4096;

/// Bits of `sample_type`.
pub(crate) mod sample_type {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of the flags.
mod flag {
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const FREQ: u64 = 1 << 10;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
}

/// What one event recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// Occurrences between two samples, or samples per second.
    period_or_rate: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    flags: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
    pub(crate) name: String,
}

/// The events of a file.
#[derive(Debug, Default)]
pub(crate) struct Attrs {
    pub(crate) all: Vec<Attr>,
    by_id: HashMap<u64, usize>,
}

impl Attr {
    /// From the bytes of a `perf_event_attr`. Fields that an old one lacks are zero.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |at: usize| u64_at(bytes, at).unwrap_or(0);
        let mut begin = Bytes(bytes);
        let (kind, _size) = (begin.u32()?, begin.u32()?);
        Some(Self {
            kind,
            config: u64_at(bytes, 8)?,
            period_or_rate: u64_at(bytes, 16)?,
            sample_type: u64_at(bytes, 24)?,
            read_format: u64_at(bytes, 32)?,
            flags: u64_at(bytes, 40)?,
            branch_sample_type: field(72),
            regs_user: field(80),
            name: String::new(),
        })
    }

    pub(crate) fn has(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    pub(crate) fn has_trailers(&self) -> bool {
        self.flags & flag::SAMPLE_ID_ALL != 0
    }

    /// Whether it is a clock of the kernel, whose periods are nanoseconds.
    pub(crate) fn is_clock(&self) -> bool {
        self.kind == 1 && self.config < 2
    }

    /// Whether it samples. Members of a group may have their counts in the samples of another one.
    pub(crate) fn samples_itself(&self) -> bool {
        self.period_or_rate > 0
    }

    /// Whether each thread has counts of its own in samples.
    pub(crate) fn counts_each_thread(&self) -> bool {
        self.flags & flag::INHERIT != 0 && self.has(sample_type::TID)
    }

    /// What a sample stands for that does not tell it.
    pub(crate) fn period(&self) -> u64 {
        match (self.flags & flag::FREQ != 0, self.is_clock()) {
            (false, _) => self.period_or_rate.max(1),
            (true, true) => 1_000_000_000 / self.period_or_rate.max(1),
            (true, false) => 1,
        }
    }

    /// Bytes of the fields that stand before the id in a sample.
    fn id_in_sample(&self) -> Option<usize> {
        use sample_type::{ADDR, ID, IDENTIFIER, IP, TID, TIME};
        if self.has(IDENTIFIER) {
            return Some(0);
        }
        self.has(ID).then(|| 8 * (self.sample_type & (IP | TID | TIME | ADDR)).count_ones() as usize)
    }

    /// The time in the body of a sample.
    pub(crate) fn time_of_sample(&self, body: &[u8]) -> Option<u64> {
        use sample_type::{IDENTIFIER, IP, TID, TIME};
        let before = (self.sample_type & (IDENTIFIER | IP | TID)).count_ones() as usize;
        self.has(TIME).then(|| u64_at(body, 8 * before))?
    }

    /// The time in the trailer of another record.
    pub(crate) fn time_of_other(&self, body: &[u8]) -> Option<u64> {
        use sample_type::{CPU, ID, IDENTIFIER, STREAM_ID, TIME};
        if !self.has_trailers() || !self.has(TIME) {
            return None;
        }
        let fields = (self.sample_type & (TIME | ID | STREAM_ID | CPU | IDENTIFIER)).count_ones() as usize;
        u64_at(body, body.len().checked_sub(8 * fields)?)
    }
}

impl Attrs {
    pub(crate) fn read<R: Read + Seek>(source: &mut Source<R>, header: &Sections) -> Result<Self, Error> {
        let what = EVENTS;
        let invalid = |at: u64, reason: String| Error::Invalid { what, at, reason };
        let entry = header.attr_size;
        if !(MIN_SIZE + 16..=MAX_SIZE).contains(&entry) {
            return Err(invalid(16, format!("an entry has {entry} bytes")));
        }
        let count = header.attrs.size / entry;
        if count == 0 || count > MAX_EVENTS {
            let reason = format!("it has {count} entries; 1 to {MAX_EVENTS} can be read");
            return Err(invalid(header.attrs.at, reason));
        }
        let bytes = source.section(header.attrs, what, MAX_EVENTS * MAX_SIZE)?;
        let mut attrs = Self::default();
        for (number, entry) in bytes.chunks_exact(entry as usize).enumerate() {
            let at = header.attrs.at + number as u64 * header.attr_size;
            let (attr, ids) = entry.split_at(entry.len() - 16);
            let attr = Attr::parse(attr).ok_or_else(|| invalid(at, "it is too short".to_owned()))?;
            let ids =
                Section { at: u64_at(ids, 0).unwrap_or_default(), size: u64_at(ids, 8).unwrap_or_default() };
            let ids = source.section(ids, "the ids of an event", MAX_IDS)?;
            attrs.by_id.extend(ids.as_chunks().0.iter().map(|id| (u64::from_le_bytes(*id), number)));
            attrs.all.push(attr);
        }
        attrs.check(header.attrs.at)?;
        Ok(attrs)
    }

    /// Adds the event of a record: a `perf_event_attr` and its ids.
    pub(crate) fn add(&mut self, at: u64, body: &[u8], budget: &mut Budget) -> Result<(), Error> {
        let invalid = |reason: &str| Error::Invalid { what: EVENTS, at, reason: reason.to_owned() };
        if self.all.len() as u64 >= MAX_EVENTS {
            return Err(invalid("it has too many entries"));
        }
        let size = body.get(4..8).and_then(|size| size.try_into().ok()).map_or(0, u32::from_le_bytes);
        // That of the first kernels does not tell its size.
        let size = if size == 0 { MIN_SIZE as usize } else { size as usize };
        let (attr, ids) = body.split_at_checked(size).ok_or_else(|| invalid("it is too short"))?;
        let attr = Attr::parse(attr).ok_or_else(|| invalid("it is too short"))?;
        let number = self.all.len();
        budget.charge(ids.len() * ID).map_err(|Full| Error::TooLarge { at, limit: Budget::LIMIT })?;
        self.by_id.extend(ids.as_chunks().0.iter().map(|id| (u64::from_le_bytes(*id), number)));
        self.all.push(attr);
        self.check(at)
    }

    /// Names the event with an id.
    pub(crate) fn name(&mut self, id: u64, name: String) {
        if let Some(attr) = self.by_id.get(&id).and_then(|number| self.all.get_mut(*number)) {
            attr.name = name;
        }
    }

    /// With several events, the id must be found in a record without knowing its event.
    fn check(&self, at: u64) -> Result<(), Error> {
        let place =
            |attr: &Attr| (attr.id_in_sample(), attr.has(sample_type::IDENTIFIER), attr.has_trailers());
        let first = self.all.first().map(place);
        let is_found = |attr: &Attr| attr.id_in_sample().is_some() && Some(place(attr)) == first;
        if self.all.len() > 1 && !self.all.iter().all(is_found) {
            let reason = "several events, and their records do not tell which one they are of".to_owned();
            return Err(Error::Invalid { what: EVENTS, at, reason });
        }
        Ok(())
    }

    /// The event of a sample. `None`: no event has its id.
    pub(crate) fn of_sample(&self, body: &[u8]) -> Option<usize> {
        if self.all.len() == 1 {
            return Some(0);
        }
        let id = u64_at(body, self.all.first()?.id_in_sample()?)?;
        self.by_id.get(&id).copied()
    }

    /// The event of a counter.
    pub(crate) fn of_id(&self, id: u64) -> Option<(usize, &Attr)> {
        let event = *self.by_id.get(&id)?;
        Some((event, self.all.get(event)?))
    }

    /// The time of any record of the kernel.
    pub(crate) fn time(&self, is_sample: bool, body: &[u8]) -> Option<u64> {
        if is_sample {
            return self.all.get(self.of_sample(body)?)?.time_of_sample(body);
        }
        let last = body.len().checked_sub(8).and_then(|at| u64_at(body, at));
        let first = self.all.first()?;
        let by_id = last.filter(|_| first.has(sample_type::IDENTIFIER)).and_then(|id| self.by_id.get(&id));
        self.all.get(by_id.copied().unwrap_or(0))?.time_of_other(body)
    }

    /// Enters the names of events from a feature section: `{count, size of an attr, {attr, count of ids, name, ids}…}`.
    pub(crate) fn enter_names(&mut self, section: &[u8]) {
        for (number, name) in names(section).unwrap_or_default().into_iter().enumerate() {
            if let Some(attr) = self.all.get_mut(number) {
                attr.name = name;
            }
        }
        self.name_the_rest();
    }

    /// Names the events that no feature names.
    pub(crate) fn name_the_rest(&mut self) {
        for attr in self.all.iter_mut().filter(|attr| attr.name.is_empty()) {
            attr.name = match (attr.kind, attr.config) {
                (1, 0) => "cpu-clock".to_owned(),
                (1, 1) => "task-clock".to_owned(),
                (0, 0) => "cycles".to_owned(),
                (0, 1) => "instructions".to_owned(),
                (kind, config) => format!("event {kind}/{config:#x}"),
            };
        }
    }
}

fn names(section: &[u8]) -> Option<Vec<String>> {
    let mut bytes = Bytes(section);
    let (count, size) = (bytes.u32()?, bytes.u32()?);
    let mut names = Vec::new();
    for _ in 0..u64::from(count).min(MAX_EVENTS) {
        bytes.take(size as usize)?;
        let (ids, length) = (bytes.u32()?, bytes.u32()?);
        names.push(Bytes(bytes.take(length as usize)?).text());
        bytes.skip_u64s(ids.into())?;
    }
    Some(names)
}
