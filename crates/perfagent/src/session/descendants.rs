//! The living descendants of a process that becomes a target.
//!
//! The programs follow a child if they record its parent at the fork, so descendants that live already are entered here. Meanwhile
//! these make children and end. So that none is missed, the programs report all forks and exits until all descendants are
//! entered. A process that lived before is either read from /proc with its parent, or its exit is reported, with its parent. The
//! fork of a younger process is reported, with its parent.

use std::collections::HashSet;

use events::SideBand;
use kernel::{Kernel, KernelProcess, LifeEvent, Message};
use sys::clock::kernel_ns;

use super::family::{Family, Relative, own_line};
use crate::Error;
use crate::failure::load_error;
use crate::processes::{Arrivals, Processes};

/// A descendant that the programs record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descendant {
    pub(super) pid: u32,
    parent: u32,
    /// The target that it descends from.
    pub(super) root: u32,
    /// Since when the programs know it; none if they followed it from its fork on.
    pub(super) from_ns: Option<u64>,
}

/// The descendants of these processes that /proc shows now.
pub(super) fn living(roots: &[u32]) -> Vec<u32> {
    let own = own_line();
    let descendants = Family::read().descendants(roots).into_iter().map(|one| one.pid);
    descendants.filter(|pid| !own.contains(pid)).collect()
}

/// Makes the programs record all living descendants of these processes, which they record already. This process, and the processes
/// between it and a target, are left out: they would keep a capture going whose targets have ended. `kernel_stacks`: whether kernel
/// frames are taken of them, if that was chosen for their target alone.
pub(super) fn follow(
    kernel: &mut Kernel,
    side_band: &mut SideBand,
    arrivals: &mut Arrivals,
    roots: &[u32],
    kernel_stacks: Option<bool>,
) -> Result<Vec<Descendant>, Error> {
    kernel.tell_all_lives(true);
    let followed = follow_told(kernel, side_band, arrivals, roots, kernel_stacks);
    kernel.tell_all_lives(false);
    followed
}

fn follow_told(
    kernel: &mut Kernel,
    side_band: &mut SideBand,
    arrivals: &mut Arrivals,
    roots: &[u32],
    kernel_stacks: Option<bool>,
) -> Result<Vec<Descendant>, Error> {
    let own = own_line();
    let mut ended = HashSet::new();
    let mut lost = kernel.life_counts().map_err(load_error)?.lost;
    let mut family = Family::read();
    let mut followed: Vec<Descendant> = Vec::new();
    loop {
        let mut records = Vec::new();
        let complete_ns = side_band.drain(&mut records);
        let messages = kernel.receive().map_err(load_error)?;
        for message in &messages {
            let Message::Life(life) = message else { continue };
            match life.event {
                LifeEvent::Fork { parent } => family.add(parent, life.pid),
                LifeEvent::Exit { parent, .. } => {
                    family.add(parent, life.pid);
                    ended.insert(life.pid);
                }
                _ => {}
            }
        }
        arrivals.add(records, complete_ns, messages);
        let lost_now = kernel.life_counts().map_err(load_error)?.lost;
        if lost_now != lost {
            lost = lost_now;
            family.read_again();
        }
        followed.retain(|one| !ended.contains(&one.pid));
        let mut entered = false;
        for Relative { pid, parent, root } in family.descendants(roots) {
            if !own.contains(&pid) && !ended.contains(&pid) && followed.iter().all(|one| one.pid != pid) {
                let from_ns = enter(kernel, pid, kernel_stacks)?;
                entered |= from_ns.is_some();
                followed.push(Descendant { pid, parent, root, from_ns });
            }
        }
        if !entered {
            return Ok(followed);
        }
        // A run that has not seen a new entry may still be about to report a fork.
        kernel.wait_for_programs().map_err(load_error)?;
    }
}

/// Makes the programs record a process. None: they do already, as its parent was recorded when it was made.
fn enter(kernel: &mut Kernel, pid: u32, kernel_stacks: Option<bool>) -> Result<Option<u64>, Error> {
    if kernel.is_recorded(pid) {
        return Ok(None);
    }
    // Later than its fork, so that a record of the fork is known to be an older one.
    let from_ns = kernel_ns();
    let unread = KernelProcess { pid, exec_id: from_ns, mappings: &[], waker_only: false };
    kernel.add_process(&unread).map_err(load_error)?;
    if let Some(on) = kernel_stacks {
        kernel.set_kernel_stacks(pid, on).map_err(load_error)?;
    }
    Ok(Some(from_ns))
}

/// Reads the descendants. Those that end meanwhile are dropped. One that the programs followed from its fork on needs no reading
/// if its parent is known: the record of the fork tells of it.
pub(super) fn read(
    processes: &mut Processes,
    kernel: &mut Kernel,
    roots: &[u32],
    descendants: &[Descendant],
) {
    let mut known: HashSet<u32> = roots.iter().copied().collect();
    for Descendant { pid, parent, from_ns, .. } in descendants {
        let from_ns = match from_ns {
            Some(from_ns) => *from_ns,
            None if known.contains(parent) => {
                known.insert(*pid);
                continue;
            }
            None => kernel.process_exec_id(*pid).unwrap_or(0),
        };
        match processes.read(*pid) {
            Ok(image) => {
                processes.enter_target(image, from_ns);
                known.insert(*pid);
            }
            Err(process::Error::Gone { .. }) => kernel.remove_process(*pid, kernel_ns()),
            Err(error) => processes.count_unread(*pid, &error),
        }
    }
}
