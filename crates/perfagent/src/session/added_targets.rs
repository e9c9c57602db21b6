//! Targets that are added while the capture goes on.
//!
//! As at the start, first the unwind tables of a target are requested, and its trampolines are switched on if that was asked for. When the tables
//! are ready, or when the wait has been long enough, the process is followed. Meanwhile the capture goes on.

use std::sync::mpsc::Sender;
use std::time::Instant;

use kernel::KernelProcess;
use sys::clock::kernel_ns;

use super::carry_over::carry_over;
use super::descendants;
use super::initial_tables::{patience, request_of_early};
use super::parts::Parts;
use super::sleepers;
use super::targets::{read_target, read_target_early};
use crate::failure::load_error;
use crate::injection::Switching;
use crate::{Error, Warning};

/// A process that is to be added, as the agent asks for it.
pub(crate) struct NewTarget {
    pub(crate) pid: u32,
    /// Whether kernel frames are taken of it, if that was chosen for this process alone.
    pub(crate) kernel_stacks: Option<bool>,
    /// Warnings about it.
    pub(crate) notes: Vec<Warning>,
    /// Gets an answer when the process is followed, or cannot be.
    pub(crate) reply: Sender<Result<(), Error>>,
}

/// The trampolines of a target.
enum Trampolines {
    NotAskedFor,
    Awaited(Switching),
    Settled(Result<(), Error>),
}

/// A target whose tables are being compiled.
struct Awaited {
    target: NewTarget,
    /// It is followed then at the latest; `None`: as soon as all tables are ready.
    until: Option<Instant>,
    trampolines: Trampolines,
}

/// The targets whose tables are being compiled.
#[derive(Default)]
pub(super) struct AddedTargets(Vec<Awaited>);

impl AddedTargets {
    /// Requests the tables of a target.
    pub(super) fn add(&mut self, parts: &mut Parts, target: NewTarget) {
        if is_followed(parts, target.pid) {
            let chosen = choose_kernel_stacks(parts, &target);
            answer(target, parts, chosen);
            return;
        }
        let read = read_target_early(&mut parts.processes, target.pid);
        match read.and_then(|()| switch_on(parts, target.pid)) {
            Ok(trampolines) => {
                let until = patience(&parts.config).map(|patience| Instant::now() + patience);
                self.0.push(Awaited { target, until, trampolines });
            }
            Err(error) => answer(target, parts, Err(error)),
        }
    }

    /// Follows the targets whose tables are ready.
    pub(super) fn follow_ready(&mut self, parts: &mut Parts) {
        if self.0.is_empty() {
            return;
        }
        // Of files that were opened since the last round.
        request_of_early(&parts.processes, &mut parts.tables);
        let tables_ready = parts.processes.opening() == 0 && parts.tables.pending() == 0;
        let now = Instant::now();
        for awaited in &mut self.0 {
            if let Trampolines::Awaited(switching) = &awaited.trampolines
                && let Some(outcome) = switching.outcome()
            {
                awaited.trampolines = Trampolines::Settled(outcome);
            }
        }
        let is_due = |awaited: &mut Awaited| {
            let tables_due = tables_ready || awaited.until.is_some_and(|until| until <= now);
            match &awaited.trampolines {
                Trampolines::Awaited(_) => false,
                Trampolines::Settled(Err(_)) => true,
                Trampolines::NotAskedFor | Trampolines::Settled(Ok(())) => tables_due,
            }
        };
        for Awaited { target, trampolines, .. } in self.0.extract_if(.., is_due).collect::<Vec<_>>() {
            let followed = match trampolines {
                Trampolines::NotAskedFor | Trampolines::Awaited(_) => follow(parts, &target),
                Trampolines::Settled(Ok(())) => {
                    follow(parts, &target).inspect(|()| note_switched(parts, target.pid))
                }
                Trampolines::Settled(Err(error)) => Err(error),
            };
            answer(target, parts, followed);
        }
    }
}

/// Begins to switch on the trampolines of a process.
fn switch_on(parts: &mut Parts, pid: u32) -> Result<Trampolines, Error> {
    match &mut parts.injector {
        Some(injector) => injector.add_named(pid).map(Trampolines::Awaited),
        None => Ok(Trampolines::NotAskedFor),
    }
}

/// A process that was switched on is followed now: when its interpreter is found, there is nothing to do.
fn note_switched(parts: &mut Parts, pid: u32) {
    let Parts { injector: Some(injector), processes, .. } = parts else { return };
    if let Some((now, _)) = processes.histories().present(pid) {
        injector.is_switched(now.instance);
    }
}

/// The asking end may have gone meanwhile: then nobody wants the answer.
fn answer(target: NewTarget, parts: &mut Parts, result: Result<(), Error>) {
    if result.is_ok() {
        parts.warnings.extend(target.notes);
    }
    let _ = target.reply.send(result);
}

/// Whether a process is a target, or descends from one.
fn is_followed(parts: &Parts, pid: u32) -> bool {
    parts.processes.histories().present(pid).is_some_and(|(_, waker_only)| !waker_only)
}

/// Takes kernel frames of a target, or no longer, if that was chosen for it alone.
fn choose_kernel_stacks(parts: &mut Parts, target: &NewTarget) -> Result<(), Error> {
    match target.kernel_stacks {
        // A process that the programs do not know has ended.
        Some(on) => parts.kernel.set_kernel_stacks(target.pid, on).map(drop).map_err(load_error),
        None => Ok(()),
    }
}

/// Follows a process from now on.
fn follow(parts: &mut Parts, target: &NewTarget) -> Result<(), Error> {
    let pid = target.pid;
    if is_followed(parts, pid) {
        return choose_kernel_stacks(parts, target);
    }
    let now_ns = kernel_ns();
    // Before it is read: its life, and that of its children, is reported from here on.
    let unread = KernelProcess { pid, exec_id: now_ns, mappings: &[], waker_only: false };
    parts.kernel.add_process(&unread).map_err(load_error)?;
    let added = choose_kernel_stacks(parts, target)
        .and_then(|()| parts.sources.add_target(&mut parts.kernel, pid, now_ns))
        .and_then(|()| read_target(&mut parts.processes, pid));
    match added {
        Ok(image) => parts.processes.enter_target(image, now_ns),
        Err(error) => {
            parts.kernel.remove_process(pid, kernel_ns());
            return Err(error);
        }
    }
    if !parts.config.no_children {
        follow_descendants(parts, target)?;
    }
    let Parts { intake, processes, kernel, tables, warnings, .. } = parts;
    let carried = carry_over(processes, kernel, tables, intake.resolver.pythons());
    warnings.checked(carried);
    take_sleepers(parts);
    Ok(())
}

/// Follows the living descendants of a new target.
fn follow_descendants(parts: &mut Parts, target: &NewTarget) -> Result<(), Error> {
    let pid = target.pid;
    let Parts { kernel, side_band, arrivals, processes, sources, .. } = parts;
    let descendants = descendants::follow(kernel, side_band, arrivals, &[pid], target.kernel_stacks)?;
    for one in &descendants {
        if let Some(from_ns) = one.from_ns {
            sources.add_descendant(kernel, one.pid, from_ns)?;
        }
    }
    descendants::read(processes, kernel, &[pid], &descendants);
    Ok(())
}

/// Takes in the threads that slept when their process became a target.
pub(super) fn take_sleepers(parts: &mut Parts) {
    let Parts { sources, intake, processes, tables, kernel, warnings, .. } = parts;
    let taken = sleepers::take_in(sources.initial_stacks(), intake, processes, tables, kernel);
    warnings.checked(taken);
}
