//! The processes that a capture begins with: read, and made known to the kernel side.

use kernel::{Kernel, KernelProcess};

use crate::Error;
use crate::error::TargetReason;
use crate::failure::load_error;
use crate::processes::{Processes, missing};
use crate::unwinding::TableStore;

/// Reads a target.
pub(super) fn read_target(processes: &mut Processes, pid: u32) -> Result<process::Image, Error> {
    processes.read(pid).map_err(|error| target_error(pid, error))
}

/// The same before the target is followed: its files are opened meanwhile.
pub(super) fn read_target_early(processes: &mut Processes, pid: u32) -> Result<(), Error> {
    processes.read_early(pid).map_err(|error| target_error(pid, error))
}

fn target_error(pid: u32, error: process::Error) -> Error {
    match error {
        process::Error::Gone { .. } => Error::Target { pid, reason: missing(pid) },
        process::Error::Permission { .. } => Error::Target { pid, reason: TargetReason::NotPermitted },
        process::Error::Io { path, source, .. } => Error::System { attempt: format!("read {path}"), source },
        other => {
            Error::System { attempt: format!("read process {pid}"), source: std::io::Error::other(other) }
        }
    }
}

/// Reads every process, so that the first sample of each finds its mappings.
pub(super) fn read_all(processes: &mut Processes, from_ns: u64) {
    let pids = process::task::list_processes().unwrap_or_default();
    processes.enter_listed(&pids);
    for pid in pids {
        if !process::task::is_kernel_thread(pid).unwrap_or(true) {
            match processes.read(pid) {
                Ok(image) => processes.enter(image, from_ns),
                Err(error) => {
                    tracing::debug!(target: "perfagent", pid, "{error}");
                    processes.count_unread(pid, &error);
                }
            }
        }
    }
}

/// Makes all known processes known to the kernel side, with the tables that are ready; no more than `most`.
pub(super) fn enter_all(
    processes: &Processes,
    tables: &mut TableStore,
    kernel: &mut Kernel,
    most: usize,
) -> Result<(), Error> {
    for (pid, snapshot) in processes.histories().current().take(most) {
        let mappings = tables.mappings(snapshot.image, &[]);
        let process =
            KernelProcess { pid, exec_id: snapshot.from_ns, mappings: &mappings, waker_only: false };
        match kernel.add_process(&process) {
            // The process is known without mappings until there is memory for them.
            Err(error @ kernel::Error::TablePoolFull { .. }) => {
                tables.written(pid);
                tables.found_no_room(pid, mappings.len(), &error);
            }
            added => {
                added.map_err(load_error)?;
                tables.written(pid);
            }
        }
    }
    Ok(())
}
