//! Processes that this one did not start itself, such as children of a test's target.

use std::fs::{self, DirEntry};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process.
///
/// # Panics
/// If the process has ended, or belongs to somebody else.
#[track_caller]
pub fn send(pid: u32, signal: Signal) {
    deliver(pid, signal).unwrap_or_else(|error| panic!("send {signal:?} to process {pid}: {error}"));
}

fn deliver(pid: u32, signal: Signal) -> Result<(), Errno> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    kill_process(number, signal)
}

/// The children of all threads of a process.
///
/// # Panics
/// If the process has ended.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap_or_else(|error| panic!("{pid}: {error}"));
    let of_thread = |thread: DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let lists: Vec<String> = threads.flatten().map(of_thread).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

/// A process that somebody else waits for. It is killed when this is dropped, also when the test fails.
#[derive(Debug)]
pub struct Foreign(pub u32);

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = deliver(self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::Process;

    #[test]
    fn a_signal_arrives() {
        let mut process = Process::asleep();
        send(process.pid(), Signal::TERM);
        assert_eq!(process.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn children_of_each_thread_are_found() {
        let process = std::thread::spawn(Process::asleep).join().unwrap();
        assert!(children(std::process::id()).contains(&process.pid()));
        assert!(children(process.pid()).is_empty());
    }

    #[test]
    fn a_foreign_process_ends_with_its_guard() {
        let mut process = Process::asleep();
        drop(Foreign(process.pid()));
        assert_eq!(process.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    #[should_panic(expected = "to process 4294967295")]
    fn a_signal_to_nobody_is_a_failure() {
        send(u32::MAX, Signal::TERM);
    }
}
