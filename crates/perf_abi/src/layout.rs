//! What the records of an event hold, by its attribute; and the fields behind records that are no samples.

use crate::attr::EventAttr;
use crate::bytes::{Bytes, Malformed};
use crate::numbers::sample;

/// What decides how the records of an event are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `sample_type`.
    pub sample_type: u64,
    /// `read_format`.
    pub read_format: u64,
    /// `branch_sample_type`.
    pub branch_sample_type: u64,
    /// `sample_regs_user`.
    pub regs_user: u64,
    /// `sample_regs_intr`.
    pub regs_intr: u64,
    /// `sample_id_all`.
    pub sample_id_all: bool,
}

/// What follows a record that is no sample, as far as the event asks for it; the same fields of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// The process.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: Option<u32>,
    /// When, on the clock of the event.
    pub time: Option<u64>,
    /// The kernel's number of the event; of an inherited event that of its origin.
    pub id: Option<u64>,
    /// The kernel's number of the very event.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// As `id`, at a place that does not depend on the event.
    pub identifier: Option<u64>,
}

impl Layout {
    /// The layout of an event with this attribute.
    #[must_use]
    pub fn of(attr: &EventAttr) -> Self {
        Self {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            sample_id_all: attr.sample_id_all,
        }
    }

    /// Whether the sample type has this bit.
    pub(crate) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Bytes of the trailer.
    #[must_use]
    pub fn trailer_len(&self) -> usize {
        let fields =
            sample::TID | sample::TIME | sample::ID | sample::STREAM_ID | sample::CPU | sample::IDENTIFIER;
        if self.sample_id_all { 8 * (self.sample_type & fields).count_ones() as usize } else { 0 }
    }

    /// Splits the body of a record that is no sample from its trailer.
    pub(crate) fn split<'a>(&self, body: &'a [u8]) -> Result<(&'a [u8], SampleId), Malformed> {
        let own = body.len().checked_sub(self.trailer_len()).ok_or(Malformed)?;
        let (own, trailer) = body.split_at_checked(own).ok_or(Malformed)?;
        let mut id = SampleId::default();
        if !self.sample_id_all {
            return Ok((own, id));
        }
        let mut bytes = Bytes(trailer);
        if self.has(sample::TID) {
            (id.pid, id.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
        }
        let mut word = |bit: u64| self.has(bit).then(|| bytes.u64()).transpose();
        id.time = word(sample::TIME)?;
        id.id = word(sample::ID)?;
        id.stream_id = word(sample::STREAM_ID)?;
        if self.has(sample::CPU) {
            id.cpu = Some(bytes.u32()?);
            bytes.take(4)?;
        }
        id.identifier = self.has(sample::IDENTIFIER).then(|| bytes.u64()).transpose()?;
        Ok((own, id))
    }

    /// The identifier of any record of a ring whose events all ask for `IDENTIFIER` and `sample_id_all`: the first word of a sample, the last
    /// word of the others.
    #[must_use]
    pub fn identifier(record: &[u8]) -> Option<u64> {
        let kind = record.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))?;
        let word = if kind == crate::numbers::record::SAMPLE {
            record.get(8..16)?
        } else {
            record.get(8..)?.last_chunk::<8>()?.as_slice()
        };
        word.try_into().ok().map(u64::from_ne_bytes)
    }

    /// The time of a record without reading the rest of it.
    #[must_use]
    pub fn time(&self, record: &[u8]) -> Option<u64> {
        if !self.has(sample::TIME) {
            return None;
        }
        let kind = record.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))?;
        let at = if kind == crate::numbers::record::SAMPLE {
            8 + 8 * (self.sample_type & (sample::IDENTIFIER | sample::IP | sample::TID)).count_ones() as usize
        } else {
            let before = if self.has(sample::TID) { 8 } else { 0 };
            record.len().checked_sub(self.trailer_len())?.checked_add(before)?
        };
        if at < 8 || !self.sample_id_all && kind != crate::numbers::record::SAMPLE {
            return None;
        }
        record.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
    }
}
