//! A probe of a program or of the kernel, in place of the clock. One event has the program, which runs once for each hit; it chooses the
//! processes and counts to the Nth itself. The probe stays until the end of the capture; the program is attached to begin and detached to end.

use events::monitor::{ArgumentPlace, MonitorError, OtherFile, Probe as Place, ProbeEvent};
use kernel::{
    Kernel, Life, LifeEvent, SampledIn, ValuePlan, locks_notice_their_cpu, nmi_may_sample, probes_may_sample,
};
use recording::Accounting;

use super::program_event::ProgramEvent;
use super::source::{Opening, Source};
use super::value;
use crate::config::SampledEvent;
use crate::failure::refused_event;
use crate::{Error, Warning, WarningKind};

const FORMS: &str =
    "a probe is uprobe:PATH:FUNCTION, uretprobe:PATH:FUNCTION, usdt:PATH:PROVIDER:NAME or kprobe:FUNCTION";
/// Functions of the kernel that may run while the sampler holds one of its locks.
const OF_LOCKS: [&str; 6] = ["lock", "bpf", "htab", "rcu", "percpu", "ringbuf"];

/// A probe.
pub(crate) struct Probe {
    sampled: SampledEvent,
    place: Place,
    opened: Option<ProbeEvent>,
    attached: ProgramEvent,
    /// Children that could get no event of their own where they need one.
    without_own: u64,
    warnings: Vec<Warning>,
}

impl Probe {
    pub(crate) fn new(sampled: &SampledEvent, number: usize, place: &Place) -> Self {
        let (sampled, place) = (sampled.clone(), place.clone());
        let attached = ProgramEvent::new(number);
        Self { sampled, place, opened: None, attached, without_own: 0, warnings: Vec::new() }
    }

    /// Whether it is in a program, not in the kernel.
    fn is_of_program(&self) -> bool {
        matches!(self.sampled.sampled_in, SampledIn::Program | SampledIn::Return)
    }

    /// Whether this kernel may take samples there.
    fn check_kernel(&self) -> Result<(), Error> {
        let name = &self.sampled.name;
        let unsupported = |what: &str, since: &str| Error::Unsupported {
            feature: format!("sampling at {name}, {what},"),
            since: since.to_owned(),
        };
        if self.is_of_program() {
            return match probes_may_sample() {
                true => Ok(()),
                false => Err(unsupported(
                    "where a program may be preempted",
                    "Linux 6.15, or 6.12 and before, with CONFIG_DEBUG_INFO_BTF",
                )),
            };
        }
        if !nmi_may_sample() {
            return Err(unsupported("a function of the kernel", "Linux 5.11 with CONFIG_DEBUG_INFO_BTF"));
        }
        if OF_LOCKS.iter().any(|word| name.contains(word)) && !locks_notice_their_cpu() {
            return Err(unsupported("which may happen where the sampler's own locks are held", "Linux 6.15"));
        }
        Ok(())
    }

    fn failed(&self, error: &MonitorError) -> Error {
        let event = format!("--event {}", self.sampled.name);
        let refused = refused_event(&event, error);
        refused.unwrap_or_else(|| Error::invalid("--event", format!("{event}: {error}"), FORMS))
    }
}

impl Source for Probe {
    fn value_plan(&mut self) -> Result<Option<ValuePlan>, Error> {
        let Some(value) = &self.sampled.value else { return Ok(None) };
        let place = ArgumentPlace::of(&self.place, &value.field).map_err(|error| self.failed(&error))?;
        value::of_argument(place).map(Some).map_err(|reason| {
            let reason = format!("--event {} value={}: {reason}", self.sampled.name, value.field);
            Error::invalid("--event", reason, "`perf-agent events trace` shows all arguments")
        })
    }

    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.check_kernel()?;
        let opened = match opening.targets.is_empty() {
            true => ProbeEvent::of_system(&self.place),
            false => ProbeEvent::of_processes(&self.place, opening.living),
        };
        let opened = opened.map_err(|error| self.failed(&error))?;
        if self.is_of_program() && !opening.targets.is_empty() && opened.is_of_all_processes() {
            self.warnings.push(Warning::new(
                WarningKind::Capture,
                format!(
                    "the probe {} is in all processes that use the file, not only in the targets: each hit costs them \
                     a microsecond or more",
                    self.sampled.name
                ),
                "mount tracefs, and run as a user who may define probes: mount -t tracefs tracefs /sys/kernel/tracing",
            ));
        }
        if let Some(other) = OtherFile::of(&self.place, opening.targets) {
            let message = other.message(&self.sampled.name.to_string());
            self.warnings.push(Warning::new(WarningKind::Target, message, other.remedy()));
        }
        self.opened = Some(opened);
        Ok(())
    }

    fn enable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        let Some(event) = self.opened.as_ref().and_then(ProbeEvent::event) else { return Ok(()) };
        let failed = |source| Error::Attach { event: self.sampled.name.clone(), cpu: None, source };
        self.attached.attach(kernel, event)?.map_err(failed)
    }

    fn add_target(&mut self, _: &mut Kernel, pid: u32, _: u64) -> Result<(), Error> {
        let added = self.opened.as_mut().map(|opened| opened.add(&[pid])).transpose();
        added.map(drop).map_err(|error| self.failed(&error))
    }

    fn follow(&mut self, life: &Life) {
        let Some(opened) = &mut self.opened else { return };
        match life.event {
            LifeEvent::Fork { .. } => {
                if let Err(error) = opened.child_begun(life.pid) {
                    tracing::debug!(target: "perfagent", pid = life.pid, "an event of its own: {error}");
                    self.without_own += 1;
                }
            }
            LifeEvent::Exit { .. } => opened.ended(life.pid),
            _ => {}
        }
    }

    fn disable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        let left_out = self.without_own + self.opened.as_ref().map_or(0, ProbeEvent::left_out);
        if left_out > 0 {
            self.warnings.push(Warning::new(
                WarningKind::Capture,
                format!(
                    "{left_out} processes that the targets started may have lost the probe {} when another one ended: kernels before 6.13 take it \
                     out of them, and there was no room to hold it",
                    self.sampled.name
                ),
                "raise the limit of open files (ulimit -n), or probe all processes: -a",
            ));
        }
        self.opened = None;
        self.attached.ended(kernel)
    }

    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        self.attached.account(kernel, self.sampled.period, accounting);
    }

    fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}
