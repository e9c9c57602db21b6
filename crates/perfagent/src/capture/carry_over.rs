//! Tells the kernel side what has changed of the processes.

use kernel::{Kernel, KernelProcess};

use super::tables::Tables;
use crate::processes::Processes;

/// Enters what changed since the last time. A process that could not be entered comes again with the next call.
pub(super) fn carry_over(
    processes: &mut Processes,
    kernel: &mut Kernel,
    tables: &mut Tables,
) -> Result<(), kernel::Error> {
    let changes = processes.take_changes();
    let (mut failed, mut again) = (Ok(()), Vec::new());
    changes.released.iter().for_each(|pid| tables.forget(*pid));
    for pid in changes.changed {
        let Some((now, waker_only)) = processes.present(pid) else { continue };
        let mappings = tables.mappings(now.image);
        let process = KernelProcess { pid, image: now.from_ns, mappings: &mappings, waker_only };
        // One that the programs do not record has ended, or, of the whole system, was not sampled yet.
        if let Err(error) = kernel.update_process(&process) {
            failed = failed.and(Err(error));
            again.push(pid);
        }
    }
    for (pid, ended_ns) in changes.ended {
        if !processes.is_alive(pid) {
            kernel.remove_process(pid, ended_ns);
        }
    }
    processes.touch(again);
    failed
}
