//! The processes in which a capture that begins switches the trampolines of CPython on.

use std::collections::HashMap;
use std::sync::Arc;

use super::descendants::Descendant;
use crate::injection::Injector;
use crate::processes::Processes;
use crate::python::Pythons;
use crate::{CancelToken, Error, Targets};

/// The targets of a capture that begins.
pub(super) struct Begun<'a> {
    pub(super) targets: &'a Targets,
    /// Those that were given by number.
    pub(super) given: &'a [u32],
    /// The same and those that were given by name; or the process of a command.
    pub(super) pids: &'a [u32],
    pub(super) followed: &'a [Descendant],
}

/// Switches on the targets that run already. The process of a command is looked at when it maps an interpreter.
///
/// # Errors
/// [`Error::Inject`] for a process that was given by number.
pub(super) fn switch_on(
    injector: &mut Injector,
    pythons: &mut Pythons,
    processes: &Processes,
    begun: &Begun<'_>,
    cancel: &CancelToken,
) -> Result<(), Error> {
    let found = pythons.take_found();
    let others: Vec<u32> = match begun.targets {
        Targets::Command(_) => return Ok(()),
        Targets::Pids(_) => {
            begun.pids.iter().copied().chain(begun.followed.iter().map(|one| one.pid)).collect()
        }
        Targets::System => {
            let all = processes.histories().current().count();
            injector.skip_others(all.saturating_sub(found.len()) as u64);
            found.iter().map(|instance| instance.pid).collect()
        }
    };
    let instances: HashMap<_, _> = others
        .iter()
        .filter_map(|pid| {
            let (now, _) = processes.histories().present(*pid)?;
            Some((*pid, Arc::clone(now.instance)))
        })
        .collect();
    injector.begin(begun.given, &others, instances, || cancel.is_cancelled())
}
