//! The executable of a process as profiles name it.

use recording::{CodeMapping, Module, ModuleId};

use super::resolver::{code_mapping, module_of};
use crate::processes::Processes;

/// The executable of a process and its loaded range, if the process is known. The range's module number means nothing.
pub(super) fn of(processes: &Processes, pid: u32) -> Option<(Module, CodeMapping)> {
    let snapshot = processes.histories().at(pid, u64::MAX)?;
    let exe = snapshot.image.exe.as_deref()?;
    // The name of an executable may end like the kernel's mark of a deleted one.
    let is_exe =
        |path: &str| path.strip_prefix(exe).is_some_and(|rest| rest.is_empty() || rest == " (deleted)");
    let mut regions = snapshot.image.regions().iter();
    let region = regions.find(|region| region.file().is_some_and(|file| is_exe(file.path())))?;
    let file = region.file()?;
    Some((module_of(file), code_mapping(ModuleId(0), file, region.offset)))
}
