//! Control groups for tests.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A control group that is removed when dropped. What is in it then moves to the root of its hierarchy.
pub struct ControlGroup {
    hierarchy: PathBuf,
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes a control group at `path` below the folder where a hierarchy is mounted. `None`: this user may not, or it is no hierarchy.
    #[must_use]
    pub fn make(hierarchy: &Path, path: &str) -> Option<Self> {
        let folder = hierarchy.join(path);
        fs::create_dir_all(&folder).ok()?;
        Some(Self { hierarchy: hierarchy.to_owned(), folder })
    }

    /// As [`Self::make`], in the hierarchy of version 2 that is mounted. The name has this process's number.
    #[must_use]
    pub fn of_version_2(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let of_version_2 = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let hierarchy = mounts.lines().find(of_version_2)?.split(' ').nth(1)?;
        Self::make(Path::new(hierarchy), &format!("perf-agent-test-{}-{name}", std::process::id()))
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes to one of its files; false if the kernel refuses that.
    #[must_use]
    pub fn write(&self, file: &str, value: &str) -> bool {
        fs::write(self.folder.join(file), value).is_ok()
    }

    /// Moves a process into it; false if the kernel refuses that.
    #[must_use]
    pub fn add(&self, pid: u32) -> bool {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// The processes in it.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let listed = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        listed.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Whether it is removed, after an attempt.
    fn remove(&self) -> bool {
        for pid in self.processes() {
            // It may have ended.
            drop(fs::write(self.hierarchy.join("cgroup.procs"), pid.to_string()));
        }
        match fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A frozen process does not end. Without this file, none is frozen.
        let _ = self.write("cgroup.freeze", "0");
        // A group is busy until its last process has ended or moved, and a process may fork meanwhile.
        crate::holds_within(crate::PATIENCE, || self.remove());
        // Folders that others use stay.
        for folder in self.folder.ancestors().skip(1).take_while(|folder| **folder != *self.hierarchy) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Process;

    #[test]
    fn a_group_in_use_is_removed_and_its_processes_go_on() {
        let Some(group) = ControlGroup::of_version_2("removed") else {
            crate::skip!("no control group of version 2 can be made")
        };
        let mut busy =
            Process::start(Command::new("sh").args(["-c", "while :; do sleep 0.001; done"])).unwrap();
        if !group.add(busy.pid()) {
            crate::skip!("no process can be moved to another cgroup");
        }
        assert!(group.processes().contains(&busy.pid()));
        let folder = group.path().to_owned();
        drop(group);
        assert!(!folder.exists());
        assert!(busy.try_wait().unwrap().is_none());
    }
}
