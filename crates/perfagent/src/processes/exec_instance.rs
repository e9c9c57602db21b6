//! One program in a process, from a fork or exec to the next exec or the end of the process. Code that is made at run
//! time belongs to such an instance, because other programs may have the same process number before and after.

use std::sync::OnceLock;
use std::time::SystemTime;

use symbols::PerfMapOwner;

use super::clock;

/// One program in a process.
#[derive(Debug)]
pub(crate) struct ExecInstance {
    pub(crate) pid: u32,
    /// Start time of the process; 0 if the process was gone before it could be read.
    start_time_ticks: u64,
    began: SystemTime,
    ended: OnceLock<SystemTime>,
}

impl ExecInstance {
    /// An instance of a process that was already running. An earlier exec is not known, so the instance began when its process
    /// did.
    pub(crate) fn met(pid: u32, start_time_ticks: u64) -> Self {
        let began = clock::wall_time_of_ticks(start_time_ticks);
        Self { pid, start_time_ticks, began, ended: OnceLock::new() }
    }

    /// An instance whose begin was recorded.
    pub(crate) fn begun(pid: u32, start_time_ticks: u64, at_ns: u64) -> Self {
        Self { pid, start_time_ticks, began: clock::wall_time(at_ns), ended: OnceLock::new() }
    }

    /// Notes the end, once.
    pub(crate) fn end(&self, at_ns: u64) {
        self.ended.get_or_init(|| clock::wall_time(at_ns));
    }

    /// Start time of the process; 0 if the process was gone before it could be read.
    pub(crate) fn start_time_ticks(&self) -> u64 {
        self.start_time_ticks
    }

    /// When it began, as far as is known.
    pub(crate) fn began(&self) -> SystemTime {
        self.began
    }

    /// When it ended, if it has.
    pub(crate) fn ended(&self) -> Option<SystemTime> {
        self.ended.get().copied()
    }

    /// The owner of its perf map, if its process still exists.
    pub(crate) fn perf_map_owner(&self) -> Option<PerfMapOwner> {
        let is_it = || process::task::start_time(self.pid).is_ok_and(|start| start == self.start_time_ticks);
        let innermost = process::task::ns_pids(self.pid).ok()?.last().copied()?;
        let owner = PerfMapOwner::of(self.pid, innermost, self.began).ok()?;
        is_it().then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_with_the_number_owns_no_map() {
        let pid = std::process::id();
        let start = process::task::start_time(pid).unwrap();
        assert!(ExecInstance::met(pid, start).perf_map_owner().is_some());
        assert!(ExecInstance::met(pid, start + 1).perf_map_owner().is_none());
        assert!(ExecInstance::met(u32::MAX, start).perf_map_owner().is_none());
    }

    #[test]
    fn it_ends_once() {
        let instance = ExecInstance::begun(1, 0, sys::clock::kernel_ns());
        assert_eq!(instance.ended(), None);
        instance.end(sys::clock::kernel_ns());
        let ended = instance.ended().unwrap();
        assert!(instance.began <= ended);
        instance.end(0);
        assert_eq!(instance.ended(), Some(ended));
    }
}
