//! From a record in order to the callback: its parts, its decoder, what is counted.

use std::collections::HashMap;
use std::sync::PoisonError;

use perf_abi::numbers::record;
use perf_abi::{Header, Layout, Record, RecordBody, SampleId};

use super::counts::add;
use super::item::{Body, EventId, Fields, Item, Meta};
use super::merge::Ordered;
use super::state::{Loss, Targets};
use super::target::Target;

/// What one run remembers.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    pub targets: Targets,
    /// Wall clock minus the clock of the events.
    pub wall_offset_ns: i64,
    /// The kernel tells losses by event, so that records about losses are not counted.
    pub counts_lost: bool,
    /// Where an event may have been inherited twice: the thread whose event speaks for a thread.
    speakers: HashMap<(EventId, u32), u32>,
}

impl Delivery {
    fn wall_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add_signed(self.wall_offset_ns)
    }

    /// Passes a record to the callback, unless it is the second one of an occurrence.
    pub fn record(&mut self, ordered: Ordered<'_>, call: &mut dyn FnMut(&Item<'_>)) {
        let id = Layout::identifier(ordered.bytes);
        let Some(target) = id.and_then(|id| self.targets.get(&id)).cloned() else { return };
        if target.shared.has_ended() {
            return;
        }
        let Ok(record) = Record::parse(ordered.bytes, &target.layout) else {
            add(&target.counts.malformed, 1);
            return;
        };
        let meta = Meta {
            source: target.source,
            header: record.header,
            id: record.id,
            time_ns: ordered.time_ns,
            wall_ns: self.wall_ns(ordered.time_ns),
            cpu: ordered.cpu,
            late: ordered.late,
        };
        let body = match record.body {
            RecordBody::Sample(sample) => {
                if self.is_second(&target, &meta, sample.raw) {
                    return;
                }
                let fields = Fields { sample, format: target.format.as_ref() };
                decoded(&target, fields)
            }
            RecordBody::Lost { .. } if self.counts_lost => return,
            RecordBody::Lost { lost, .. } | RecordBody::LostSamples { lost } => {
                add(&target.counts.lost, lost);
                call(&Item { event: target.event, meta, body: Body::Lost(lost) });
                return;
            }
            RecordBody::Exit(task) => {
                self.speakers.retain(|(_, tid), _| *tid != task.tid);
                Body::Record(RecordBody::Exit(task))
            }
            other => Body::Record(other),
        };
        add(&target.counts.delivered, 1);
        if ordered.late {
            add(&target.counts.late, 1);
        }
        if ordered.early {
            add(&target.counts.early, 1);
        }
        if matches!(body, Body::Decoded(Err(_))) {
            add(&target.counts.decode_errors, 1);
        }
        call(&Item { event: target.event, meta, body });
    }

    fn is_second(&mut self, target: &Target, meta: &Meta, raw: Option<&[u8]>) -> bool {
        if let (Some(thread), Some(event), Some(tid)) = (target.ambiguous_thread, target.event, meta.id.tid)
            && *self.speakers.entry((event, tid)).or_insert(thread) != thread
        {
            return true;
        }
        target.shared.is_second(
            target.filter_number,
            meta.time_ns,
            meta.cpu,
            meta.id.tid,
            raw.unwrap_or_default(),
        )
    }

    /// Tells of a loss.
    pub fn loss(&self, loss: Loss, time_ns: u64, call: &mut dyn FnMut(&Item<'_>)) {
        let meta = Meta {
            source: loss.source,
            header: Header { kind: record::LOST, misc: 0, size: 8 },
            id: SampleId { time: Some(time_ns), cpu: Some(loss.cpu), ..SampleId::default() },
            time_ns,
            wall_ns: self.wall_ns(time_ns),
            cpu: loss.cpu,
            late: false,
        };
        call(&Item { event: loss.event, meta, body: Body::Lost(loss.count) });
    }
}

fn decoded<'a>(target: &'a Target, fields: Fields<'a>) -> Body<'a> {
    let mut decoder = target.shared.decoder.lock().unwrap_or_else(PoisonError::into_inner);
    match decoder.as_mut() {
        Some(decoder) => Body::Decoded(decoder(&fields)),
        None => Body::Event(fields),
    }
}
