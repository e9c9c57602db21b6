//! Tells the kernel side what changed about processes.

use std::time::Instant;

use kernel::{Kernel, KernelProcess};

use crate::processes::Processes;
use crate::python::Pythons;
use crate::unwinding::TableStore;

/// Enters what changed since the last call. A process that could not be entered is tried again at the next call, or when there is room for
/// its mappings.
pub(super) fn carry_over(
    processes: &mut Processes,
    kernel: &mut Kernel,
    tables: &mut TableStore,
    mut pythons: Option<&mut Pythons>,
) -> Result<(), kernel::Error> {
    let changes = processes.take_changes();
    let (mut failed, mut again, mut costs) = (Ok(()), Vec::new(), Vec::new());
    changes.released.iter().for_each(|pid| tables.forget(*pid));
    for pid in changes.changed {
        let Some((now, waker_only)) = processes.histories().present(pid) else {
            // It has ended, and the programs know it no more.
            tables.written(pid);
            continue;
        };
        if let Some(pythons) = pythons.as_mut().filter(|_| !waker_only) {
            pythons.look_at(pid, now);
        }
        let begun = Instant::now();
        let mappings = tables.mappings(now.image, processes.nowhere(pid));
        let process = KernelProcess { pid, exec_id: now.from_ns, mappings: &mappings, waker_only };
        // The kernel side may not record the process: it has ended or, with the whole system as target, was not sampled yet.
        match kernel.update_process(&process) {
            Ok(_) => tables.written(pid),
            Err(error @ kernel::Error::TablePoolFull { .. }) => {
                // The process has an empty list now.
                tables.written(pid);
                tables.found_no_room(pid, mappings.len(), &error);
            }
            Err(error) => {
                failed = failed.and(Err(error));
                again.push(pid);
            }
        }
        costs.push((pid, begun.elapsed()));
        if let Some(pythons) = &mut pythons {
            failed = failed.and(pythons.tell(pid, now.from_ns, kernel));
        }
    }
    for (pid, ended_ns) in changes.ended {
        if !processes.histories().is_alive(pid) {
            kernel.remove_process(pid, ended_ns);
            pythons.iter_mut().for_each(|pythons| pythons.forget(pid));
        }
    }
    costs.into_iter().for_each(|(pid, cost)| processes.charge(pid, cost));
    processes.touch(again);
    failed
}
