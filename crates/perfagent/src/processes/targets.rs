//! The processes that a user asks for.

use process::task;

use super::ended::has_ended;
use crate::error::TargetReason;
use crate::{Error, Targets, Warning, WarningKind};

/// Resolves a number given by the user to a process of the agent's PID namespace. A note says if it was something
/// else.
pub(crate) fn resolve(pid: u32, notes: &mut Vec<Warning>) -> Result<u32, Error> {
    match task::tgid_of(pid) {
        Ok(process) if process == pid => Ok(pid),
        Ok(process) => {
            let message = format!("{pid} is a thread of process {process}: the whole process is profiled");
            notes.push(Warning::bare(WarningKind::Target, message));
            Ok(process)
        }
        Err(_) => by_innermost_number(pid, notes),
    }
}

/// The process that a capture would profile for this number: the process of a thread, or the process that has this number
/// inside a container.
///
/// # Errors
/// [`Error::Target`] if there is none, or more than one.
pub fn process_of(number: u32) -> Result<u32, Error> {
    resolve(number, &mut Vec::new())
}

/// The process that has this number inside a container.
fn by_innermost_number(pid: u32, notes: &mut Vec<Warning>) -> Result<u32, Error> {
    let candidates = task::find_by_innermost_pid(pid).unwrap_or_default();
    match candidates[..] {
        [] => Err(Error::Target { pid, reason: missing(pid) }),
        [host] => {
            notes.push(Warning::bare(WarningKind::Target, format!("pid {pid} (host: {host})")));
            Ok(host)
        }
        _ => {
            let describe = |host: &u32| {
                let container = process::Labels::read(*host, &process::OwnPod::default())
                    .ok()
                    .and_then(|labels| labels.container_id);
                format!("{host} in {}", container.as_deref().unwrap_or("an unnamed container"))
            };
            let reason = TargetReason::Ambiguous(candidates.iter().map(describe).collect());
            Err(Error::Target { pid, reason })
        }
    }
}

/// Why `/proc` does not have a process.
pub(crate) fn missing(pid: u32) -> TargetReason {
    if !std::path::Path::new("/proc/self").exists() {
        return TargetReason::NoProc;
    }
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    match number.map(rustix::process::test_kill_process) {
        // It may be sent signals, or may not.
        Some(Ok(()) | Err(rustix::io::Errno::PERM)) => TargetReason::Hidden,
        _ => TargetReason::Gone,
    }
}

/// The processes with this name, without the agent itself, in ascending order.
pub(crate) fn named(comm: &str) -> Vec<u32> {
    let is_named = |pid: &u32| *pid != std::process::id() && task::comm(*pid).is_ok_and(|name| name == comm);
    let mut pids: Vec<u32> =
        task::list_processes().unwrap_or_default().into_iter().filter(is_named).collect();
    pids.sort_unstable();
    pids
}

/// A warning if a target has ended but is still listed in /proc.
pub(crate) fn zombie(pid: u32) -> Option<Warning> {
    has_ended(pid).then(|| {
        let message =
            format!("process {pid} has ended: it is listed only until its parent takes notice of that");
        Warning::new(WarningKind::Target, message, "give the number of a process that runs")
    })
}

/// The number of threads of these processes, or of the whole machine. 0: unknown.
pub(crate) fn count_threads(targets: &Targets, pids: &[u32]) -> u32 {
    if matches!(targets, Targets::System) {
        // "0.20 0.18 0.12 1/80 11206": running and all.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let threads = load.split_ascii_whitespace().nth(3).and_then(|field| field.split_once('/'));
        return threads.and_then(|(_, all)| all.parse().ok()).unwrap_or(0);
    }
    let of = |pid: &u32| task::threads(*pid).map_or(0, |threads| threads.len());
    u32::try_from(pids.iter().map(of).sum::<usize>()).unwrap_or(u32::MAX)
}

/// Inode of the agent's PID namespace; 0 if that is the initial namespace.
pub(crate) fn own_namespace() -> u32 {
    // PROC_PID_INIT_INO, include/linux/proc_ns.h
    const FIRST: u64 = 0xeffffffc;
    let own = task::pid_namespace(std::process::id()).map(|namespace| namespace.inode);
    own.ok().filter(|inode| *inode != FIRST).and_then(|inode| u32::try_from(inode).ok()).unwrap_or(0)
}
