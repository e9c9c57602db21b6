//! A tracepoint of the kernel, in place of the clock. One event is open: with a program, a tracepoint runs it on all CPUs and for all processes,
//! whatever the event says of CPU, process, period and being enabled. So the program chooses the processes and counts to the Nth itself, and
//! it is attached to begin and detached to end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use events::monitor::{Format, MonitorError, Tracefs};
use kernel::{Kernel, ValuePlan, locks_notice_their_cpu, nmi_may_sample};
use recording::Accounting;
use sys::perf::{self, Attr};

use super::program_event::ProgramEvent;
use super::source::{Opening, Source};
use super::value;
use crate::config::{EventValue, SampledEvent};
use crate::{Error, privilege};

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// A tracepoint.
pub(crate) struct Tracepoint {
    name: String,
    period: u64,
    group: String,
    value: Option<EventValue>,
    opened: Option<OwnedFd>,
    attached: ProgramEvent,
}

impl Tracepoint {
    pub(crate) fn new(sampled: &SampledEvent, number: usize, group: &str) -> Self {
        let SampledEvent { name, period, value, .. } = sampled.clone();
        let attached = ProgramEvent::new(number);
        Self { name, period, group: group.to_owned(), value, opened: None, attached }
    }

    fn attach_error(&self, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return privilege::refusal(&format!("attach {}", self.name));
        }
        Error::Attach { event: self.name.clone(), cpu: None, source }
    }

    /// Whether this kernel may take samples there.
    fn check_kernel(&self) -> Result<(), Error> {
        let unsupported = |what: &str, since: &str| Error::Unsupported {
            feature: format!("sampling at {}, {what},", self.name),
            since: since.to_owned(),
        };
        if !nmi_may_sample() {
            return Err(unsupported("a tracepoint", "Linux 5.11 with CONFIG_DEBUG_INFO_BTF"));
        }
        if self.group == "lock" && !locks_notice_their_cpu() {
            return Err(unsupported("which happens where the sampler's own locks are held", "Linux 6.15"));
        }
        Ok(())
    }

    /// What the kernel tells of the tracepoint.
    fn format(&self) -> Result<Format, Error> {
        let found = Tracefs::find(None).and_then(|tracefs| tracefs.format(&self.name));
        found.map_err(|error| match error {
            MonitorError::Tracefs { searched } => {
                let reason =
                    format!("--event {}: there is no tracefs; searched: {}", self.name, searched.join(", "));
                Error::invalid("--event", reason, "mount -t tracefs tracefs /sys/kernel/tracing")
            }
            MonitorError::UnknownTracepoint { near, .. } => {
                let reason = format!("--event {}: the running kernel has no such tracepoint", self.name);
                let known =
                    if near.is_empty() { String::new() } else { format!("near are {}; ", near.join(", ")) };
                let hint = format!(
                    "{known}`perf-agent events list` shows all; modules bring theirs when they are loaded"
                );
                Error::invalid("--event", reason, hint)
            }
            MonitorError::Read { path, source } => {
                let attempt =
                    format!("read the format of the tracepoint {} from {}", self.name, path.display());
                Error::System { attempt, source }
            }
            other => Error::invalid(
                "--event",
                format!("--event {}: {other}", self.name),
                "`perf-agent events format NAME` shows what the kernel tells of it",
            ),
        })
    }
}

impl Source for Tracepoint {
    fn value_plan(&mut self) -> Result<Option<ValuePlan>, Error> {
        let Some(EventValue { field, .. }) = &self.value else { return Ok(None) };
        value::of_field(&self.format()?, field).map(Some).map_err(|reason| {
            let hint = format!("`perf-agent events format {}` shows its fields", self.name);
            Error::invalid("--event", format!("--event {} value={field}: {reason}", self.name), hint)
        })
    }

    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.check_kernel()?;
        let attr =
            Attr { kind: TRACEPOINT, config: self.format()?.id, flags: perf::DISABLED, ..Attr::default() };
        let cpu = opening.cpus.first().copied().unwrap_or(0);
        let opened = perf::open(&attr, -1, i32::try_from(cpu).unwrap_or(0), None);
        self.opened = Some(opened.map_err(|source| self.attach_error(source))?);
        Ok(())
    }

    fn enable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        let Some(event) = &self.opened else { return Ok(()) };
        let attached = self.attached.attach(kernel, event.as_fd())?;
        attached.map_err(|source| self.attach_error(source))
    }

    fn disable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        self.opened = None;
        self.attached.ended(kernel)
    }

    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        self.attached.account(kernel, self.period, accounting);
    }
}
