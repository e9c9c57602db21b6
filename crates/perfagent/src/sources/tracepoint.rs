//! A tracepoint of the kernel, in place of the clock. One event is open: with a program, a tracepoint runs it on all CPUs and for all processes,
//! whatever the event says of CPU, process, period and being enabled. So the program chooses the processes and counts to the Nth itself, and
//! it is attached to begin and detached to end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::{Kernel, locks_notice_their_cpu, nmi_may_sample};
use recording::{Accounting, NotRun};
use sys::perf::{self, Attr};

use super::source::{Opening, Source};
use crate::config::SampledEvent;
use crate::failure::load_error;
use crate::{Error, privilege};

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// Where the file system of tracepoints is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Names that a refusal suggests.
const SUGGESTED: usize = 8;

/// A tracepoint.
pub(crate) struct Tracepoint {
    name: String,
    period: u64,
    group: String,
    event: String,
    opened: Option<OwnedFd>,
    /// Runs of the program that the kernel had skipped before the tracepoint was attached.
    skipped_before: u64,
}

impl Tracepoint {
    pub(crate) fn new(sampled: &SampledEvent, group: &str, event: &str) -> Self {
        let (name, period) = (sampled.name.clone(), sampled.period.max(1));
        let (group, event) = (group.to_owned(), event.to_owned());
        Self { name, period, group, event, opened: None, skipped_before: 0 }
    }

    fn attach_error(&self, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::PermissionDenied
            && let Err(missing) = privilege::require(false)
        {
            return missing;
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

    /// The number of the tracepoint.
    fn number(&self) -> Result<u64, Error> {
        let roots = TRACEFS.map(|root| Path::new(root).join("events"));
        let path = |root: &PathBuf| root.join(&self.group).join(&self.event).join("id");
        let root = roots.iter().find(|root| root.is_dir()).unwrap_or(&roots[0]);
        match std::fs::read_to_string(path(root)) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(|_| self.unreadable(&path(root), io::ErrorKind::InvalidData.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.unknown(root)),
            Err(error) => Err(self.unreadable(&path(root), error)),
        }
    }

    fn unreadable(&self, path: &Path, source: io::Error) -> Error {
        let attempt = format!("read the number of the tracepoint {} from {}", self.name, path.display());
        Error::System { attempt, source }
    }

    fn unknown(&self, root: &Path) -> Error {
        let Some(groups) = names_in(root) else {
            let reason = format!("--event {}: tracefs is not mounted at {}", self.name, TRACEFS.join(" or "));
            return Error::invalid("--event", reason, "mount -t tracefs tracefs /sys/kernel/tracing");
        };
        let reason = format!("--event {}: the running kernel has no such tracepoint", self.name);
        let hint = match names_in(&root.join(&self.group)) {
            Some(events) => format!("{}: has {}", self.group, nearest(events, &self.event)),
            None => format!(
                "groups are {}; modules bring theirs when they are loaded",
                nearest(groups, &self.group)
            ),
        };
        Error::invalid("--event", reason, hint)
    }
}

/// The names of the directories in a directory.
fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Some(names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The names that begin most like this one.
fn nearest(mut names: Vec<String>, wanted: &str) -> String {
    let in_common =
        |name: &str| name.bytes().zip(wanted.bytes()).take_while(|(one, other)| one == other).count();
    names.sort_by_key(|name| (std::cmp::Reverse(in_common(name)), name.clone()));
    let left_out = if names.len() > SUGGESTED { ", …" } else { "" };
    names.truncate(SUGGESTED);
    names.join(", ") + left_out
}

impl Source for Tracepoint {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.check_kernel()?;
        let attr =
            Attr { kind: TRACEPOINT, config: self.number()?, flags: perf::DISABLED, ..Attr::default() };
        let cpu = opening.cpus.first().copied().unwrap_or(0);
        let opened = perf::open(&attr, -1, i32::try_from(cpu).unwrap_or(0), None);
        self.opened = Some(opened.map_err(|source| self.attach_error(source))?);
        Ok(())
    }

    fn enable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        self.skipped_before = kernel.sampler_skipped();
        let Some(event) = &self.opened else { return Ok(()) };
        let attached = kernel.with_sampler(|program| perf::set_bpf(event.as_fd(), program));
        attached.map_err(load_error)?.map_err(|source| self.attach_error(source))
    }

    fn disable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        self.opened = None;
        // Runs that began before are still going on.
        kernel.wait_for_programs().map_err(load_error)
    }

    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        let skipped = kernel.sampler_skipped().saturating_sub(self.skipped_before);
        accounting.not_run = NotRun { periods: skipped / self.period, worst: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_suggested() {
        let names = ["sched_wakeup", "sched_switch", "sched_wait_task"].map(str::to_owned).to_vec();
        assert_eq!(nearest(names, "sched_swich"), "sched_switch, sched_wait_task, sched_wakeup");
        let many = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(nearest(many, "1"), "1, 10, 11, 12, 13, 14, 15, 16, …");
    }
}
