//! What is counted: an event by its text or by its attribute.

use std::path::Path;

use perf_abi::EventAttr;
use perf_abi::numbers::sample;

use crate::monitor::error::MonitorError;
use crate::monitor::probe::Prepared;
use crate::monitor::request::{EventRequest, What};
use crate::monitor::resolved::Resolved;
use crate::monitor::{EventTextError, parse_event};

/// An event of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEvent {
    what: What,
    attr: Option<EventAttr>,
    period: Option<u64>,
    filter: Option<String>,
}

impl GroupEvent {
    /// The event that a text names, as for [`parse_event`]. With `period=N` it is sampled too.
    ///
    /// # Errors
    /// [`EventTextError`] tells which part is not understood, and what is.
    pub fn parse(text: &str) -> Result<Self, EventTextError> {
        let EventRequest { what, period, .. } = parse_event(text)?;
        Ok(Self { what, attr: None, period, filter: None })
    }

    /// Counts only what passes the filter, in the language of tracefs.
    #[must_use]
    pub fn filter(self, text: &str) -> Self {
        Self { filter: Some(text.to_owned()).filter(|text| !text.is_empty()), ..self }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        self.request().name()
    }

    /// Whether each period of it gives a record.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.period.is_some()
            || self.attr.as_ref().is_some_and(|attr| attr.sample_period != 0 || attr.sample_freq != 0)
    }

    fn request(&self) -> EventRequest {
        let (attr, filter) = (self.attr.clone(), self.filter.clone());
        EventRequest { attr, period: self.period, filter, ..EventRequest::of(self.what.clone()) }
    }
}

impl From<EventAttr> for GroupEvent {
    /// The event with exactly this attribute; what reading needs is added to a copy.
    fn from(attr: EventAttr) -> Self {
        let name = format!("type={}/config={:#x}", attr.kind, attr.config);
        let further = [attr.config1, attr.config2];
        let what = What::Numbered { kind: attr.kind, config: attr.config, further, name };
        Self { what, attr: Some(attr), period: None, filter: None }
    }
}

/// An event of a group, ready to be opened.
#[derive(Debug)]
pub(super) struct Member {
    pub name: String,
    /// As the caller wants it.
    pub attr: EventAttr,
    pub filter: Option<String>,
    /// Undone after the events were closed.
    probe: Option<Prepared>,
}

impl Member {
    /// Finds the event on this kernel.
    pub fn of(
        event: &GroupEvent,
        follows_threads: bool,
        tracing_dir: Option<&Path>,
    ) -> Result<Self, MonitorError> {
        let request = event.request();
        let resolved = Resolved::of(&request, follows_threads, tracing_dir)?;
        let mut attr = resolved.attr(&request, None)?;
        if event.attr.is_none() {
            if event.is_sampled() {
                attr.sample_type |= sample::READ;
            } else {
                (attr.sample_type, attr.sample_period, attr.sample_freq, attr.freq) = (0, 0, 0, false);
            }
        }
        Ok(Self { name: request.name(), attr, filter: request.filter, probe: resolved.probe })
    }

    /// Whether the event is a probe.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}
