//! The executable of a process as profiles name it.

use recording::{CodeMapping, Module, ModuleId};

use super::resolver::{code_mapping, module_of};
use crate::processes::Processes;

/// The executable of a process and its loaded range, if the process is known. The range's module number means nothing.
pub(super) fn of(processes: &Processes, pid: u32) -> Option<(Module, CodeMapping)> {
    let snapshot = processes.histories().at(pid, u64::MAX)?;
    let exe = snapshot.image.exe.as_deref()?;
    let region = snapshot
        .image
        .regions()
        .iter()
        .find(|region| region.kind.file().is_some_and(|file| file.path() == exe))?;
    let file = region.kind.file()?;
    Some((module_of(file), code_mapping(ModuleId(0), file, region.offset)))
}
