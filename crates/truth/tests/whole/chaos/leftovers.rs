//! What is there after the end of an agent: its profiles, which account for all samples, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, getpgid, test_kill_process_group};
use testkit::PATIENCE;
use truth::leftovers::BpfObjects;
use truth::profiler::read_pprof;

use super::targets::Targets;
use crate::ledgers::accounts_for_all;

/// An agent that has ended.
pub(super) struct Ended {
    pub(super) pid: u32,
    pub(super) folder: tempfile::TempDir,
    pub(super) held: BpfObjects,
    /// Processes that were there before it.
    pub(super) others: BTreeSet<u32>,
    /// Whether it must have written all outputs.
    pub(super) is_complete: bool,
}

/// The mode of an output by its name. `None`: it is no output.
fn mode_of(name: &str) -> Option<&'static str> {
    let stem = name.strip_suffix(".pb.gz")?;
    [("on", "on-cpu"), ("off", "off-cpu")].into_iter().find_map(|(prefix, mode)| {
        let time = stem.strip_prefix(prefix)?;
        (time.is_empty() || time.starts_with('-')).then_some(mode)
    })
}

/// The numbers of all processes.
pub(super) fn all_processes() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn number_of(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

/// Whether a process is a perf-agent outside of the group of `own`: another profiler may begin here meanwhile.
fn is_another_agent(process: u32, own: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end() == "perf-agent"
        && getpgid(Some(number_of(process))).is_ok_and(|group| group != number_of(own))
}

/// Descriptors of processes whose files are in `folder`, but for those of `others` and of other agents. The targets have none of their own
/// for longer than a moment.
fn descriptors_into(folder: &Path, others: &BTreeSet<u32>, own: u32) -> Vec<PathBuf> {
    let processes = all_processes().into_iter();
    let processes = processes.filter(|pid| !others.contains(pid) && !is_another_agent(*pid, own));
    let all = processes.filter_map(|process| fs::read_dir(format!("/proc/{process}/fd")).ok());
    let all = all.flat_map(|descriptors| descriptors.flatten().map(|descriptor| descriptor.path()));
    all.filter(|path| fs::read_link(path).is_ok_and(|file| file.starts_with(folder))).collect()
}

impl Ended {
    /// Whether it was met with programs in the kernel.
    pub(super) fn held_programs(&self) -> bool {
        !self.held.programs.is_empty()
    }

    /// Checks each profile, also those of intervals that were complete before a SIGKILL. Returns how many there are.
    pub(super) fn accounted_profiles(&self, mode: &[&str], what: &str) -> usize {
        let outputs: Vec<_> = self.outputs().read_dir().unwrap().map(|entry| entry.unwrap()).collect();
        for entry in &outputs {
            let name = entry.file_name().into_string().unwrap();
            let Some(mode) = mode_of(&name) else { panic!("{what}: {name} is left") };
            let profile = read_pprof(&entry.path()).unwrap();
            accounts_for_all(&profile, mode, &format!("{what}: {name}"));
        }
        let least = mode.iter().filter(|option| ["--profile", "--offcpu"].contains(option)).count();
        assert!(!self.is_complete || outputs.len() >= least, "{what}: {outputs:?}");
        outputs.len()
    }

    fn outputs(&self) -> PathBuf {
        self.folder.path().join("outputs")
    }

    /// Fails if something of it is left: BPF objects, processes, open files of targets.
    pub(super) fn leaves_nothing(&self, targets: &Targets, what: &str) {
        let left = self.held.remaining(PATIENCE);
        assert!(left.is_empty(), "{what}: {left:?}");
        testkit::until(&format!("the end of all processes that belonged to {what}"), || {
            test_kill_process_group(number_of(self.pid)) == Err(Errno::SRCH)
        });
        let mut open = Vec::new();
        let is_clean = testkit::holds_within(PATIENCE, || {
            open = descriptors_into(targets.folder(), &self.others, self.pid);
            open.is_empty()
        });
        assert!(is_clean, "{what}: {open:?}");
    }
}
