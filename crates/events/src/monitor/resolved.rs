//! What a request means on this kernel: the probe that was made for it, and the format of its records.

use std::path::Path;

use perf_abi::EventAttr;
use tracepoints::Format;

use super::error::MonitorError;
use super::probe::{Prepared, prepare};
use super::request::{EventRequest, What};
use super::tracefs::Tracefs;

/// What a request means on this kernel.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// If it is a probe. It is undone when this is dropped, after the events of it were closed.
    pub probe: Option<Prepared>,
    /// Of a tracepoint or probe.
    pub format: Option<Format>,
}

impl Resolved {
    /// Makes the probe, or finds the tracepoint. `follows_threads`: the events will be inherited by threads and processes.
    pub fn of(
        request: &EventRequest,
        follows_threads: bool,
        tracing_dir: Option<&Path>,
    ) -> Result<Self, MonitorError> {
        let probe = match &request.what {
            What::Probe(probe) => {
                Some(prepare(probe, request.filter.is_some() || follows_threads, tracing_dir)?)
            }
            _ => None,
        };
        let format = match &request.what {
            What::Tracepoint(name) => Some(Tracefs::find(tracing_dir)?.format(name)?),
            _ => probe.as_ref().map(|probe| probe.format.clone()),
        };
        Ok(Self { probe, format })
    }

    /// The attribute that the request asks for, checked.
    pub fn attr(
        &self,
        request: &EventRequest,
        default: Option<&EventAttr>,
    ) -> Result<EventAttr, MonitorError> {
        let id = self.format.as_ref().map_or(0, |format| format.id);
        let attr = request.wanted_attr(id, self.probe.as_ref(), default);
        attr.check()?;
        Ok(attr)
    }
}
