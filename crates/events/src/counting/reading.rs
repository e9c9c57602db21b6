//! Readings of counters.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use sys::perf::{self, Count};

use super::{CounterSpec, Unit};

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CountOutcome {
    /// The event was opened. If `running_ns` is 0 it was never counted, although it may have happened.
    Counted {
        /// Occurrences while it was counted, summed over threads or CPUs.
        value: u64,
        /// Time for which it was enabled, in ns, summed likewise.
        enabled_ns: u64,
        /// Time for which it was counted, in ns: less than `enabled_ns` if there were more events than counters.
        running_ns: u64,
    },
    /// It could not be opened anywhere.
    NotAvailable {
        /// The errno and what it means.
        reason: String,
    },
}

/// An event and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Name of the event.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Its result.
    pub outcome: CountOutcome,
    /// Failed reads: their part is missing.
    pub failed_reads: u64,
}

/// The count of an event over some of its descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    count: Count,
    opened: bool,
    failed_reads: u64,
}

impl Sum {
    /// Adds the counts of these descriptors.
    pub fn add<F: AsFd>(&mut self, fds: impl Iterator<Item = F>) {
        let sum = &mut self.count;
        for fd in fds {
            self.opened = true;
            match perf::read_count(fd.as_fd()) {
                Ok(count) => {
                    sum.value = sum.value.saturating_add(count.value);
                    sum.enabled_ns = sum.enabled_ns.saturating_add(count.enabled_ns);
                    sum.running_ns = sum.running_ns.saturating_add(count.running_ns);
                }
                Err(_) => self.failed_reads += 1,
            }
        }
    }

    /// The result, or the reason why there is none.
    pub fn reading(self, spec: &CounterSpec, unavailable: Option<&str>) -> Reading {
        let Count { value, enabled_ns, running_ns } = self.count;
        let outcome = match unavailable {
            Some(reason) if !self.opened => CountOutcome::NotAvailable { reason: reason.to_owned() },
            _ => CountOutcome::Counted { value, enabled_ns, running_ns },
        };
        let (name, unit) = (spec.name().to_owned(), spec.unit());
        Reading { name, unit, outcome, failed_reads: self.failed_reads }
    }
}

/// The errno and its meaning for a counter.
pub(super) fn reason(error: &io::Error) -> String {
    let Some(errno) = Errno::from_io_error(error) else { return error.to_string() };
    let (name, meaning) = match errno {
        Errno::NOENT => ("ENOENT", "this machine has no such event"),
        Errno::OPNOTSUPP => ("EOPNOTSUPP", "the hardware does not support it"),
        Errno::NODEV => ("ENODEV", "the processor does not support it"),
        Errno::NXIO => ("ENXIO", "the processor does not support it"),
        Errno::ACCESS => ("EACCES", "not permitted; needs CAP_PERFMON"),
        Errno::PERM => ("EPERM", "not permitted; needs CAP_PERFMON and a seccomp profile that allows it"),
        Errno::INVAL => ("EINVAL", "the kernel does not accept this event"),
        Errno::BUSY => ("EBUSY", "another user holds the counter exclusively"),
        Errno::MFILE => ("EMFILE", "too many open files; raise ulimit -n"),
        Errno::NFILE => ("ENFILE", "too many open files on this machine"),
        Errno::NOSYS => ("ENOSYS", "the kernel was built without perf events"),
        Errno::NOMEM => ("ENOMEM", "no memory is left"),
        _ => return error.to_string(),
    };
    format!("{name}: {meaning}")
}
