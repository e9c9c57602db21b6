//! One round of a running capture: what happened to processes and the stacks that they sent, in order; then tables that became ready;
//! then everything that changed goes into the kernel.

use std::time::{Duration, Instant};

use kernel::Message;

use super::carry_over::carry_over;
use super::intake::WalkContext;
use super::parts::Parts;
use super::perf_data;
use crate::hooks::{ExecutedProgram, HookThread};
use crate::processes::{Arrival, Losses, Processes};
use crate::{Warning, WarningKind};

/// Time between two deliveries of new frames to be named.
const NAMES_INTERVAL: Duration = Duration::from_millis(500);

/// Makes a round. `last`: also handles arrivals that are usually held back to keep the order. True if processes came, went or changed.
pub(super) fn round(parts: &mut Parts, last: bool) -> bool {
    receive(parts, last);
    let mut busy = handle_arrivals(parts);
    if !last {
        for error in parts.sources.advance(&mut parts.kernel) {
            parts.warnings.add(Warning::bare(WarningKind::Capture, error.to_string()));
        }
    }
    let ready = parts.tables.install_finished(&mut parts.kernel, Duration::ZERO);
    busy |= !ready.is_empty() || parts.tables.pending() > 0;
    parts.processes.touch(ready);
    parts.processes.read_again();
    let Parts { intake, processes, kernel, tables, warnings, injector, .. } = parts;
    let carried = carry_over(processes, kernel, tables, intake.resolver.pythons());
    warnings.checked(carried);
    if let Some(pythons) = intake.resolver.pythons() {
        let advanced = pythons.advance(Duration::ZERO, processes, kernel);
        busy |= warnings.checked(advanced).unwrap_or(false);
        if let Some(injector) = injector {
            injector.add(pythons.take_found());
            warnings.extend(injector.take_warnings());
        }
    }
    let mut context =
        WalkContext { processes: &parts.processes, tables: &mut parts.tables, kernel: &parts.kernel };
    parts.intake.walk_waiting(&mut context, last);
    let nowhere = parts.intake.take_nowhere();
    nowhere.into_iter().for_each(|lost| parts.processes.lost_at(lost));
    perf_data::round(parts, false);
    if parts.named.elapsed() >= NAMES_INTERVAL {
        parts.named = Instant::now();
        parts.send_new_frames();
    }
    busy
}

/// Takes the sums of the kernel side if its table is half full. Not between a seam and the end of its cut: they belong to the next interval.
pub(super) fn drain_if_half_full(parts: &mut Parts) {
    if parts.intake.undrained() > u64::from(parts.kernel.stack_capacity()) / 2 {
        drain(parts);
    }
}

/// Takes the sums that the kernel side holds.
pub(super) fn drain(parts: &mut Parts) {
    let drained = parts.intake.drain(&mut parts.kernel, &parts.processes);
    parts.warnings.checked(drained);
}

/// Receives what the programs and the side band sent.
fn receive(parts: &mut Parts, last: bool) {
    let mut records = Vec::new();
    let complete_ns = if last {
        parts.side_band.drain_all(&mut records);
        u64::MAX
    } else {
        parts.side_band.drain(&mut records)
    };
    let messages = parts.kernel.receive();
    let messages = parts.warnings.checked(messages).unwrap_or_default();
    let samples = parts.intake.take_samples(&parts.kernel);
    parts.warnings.checked(samples);
    look_for_losses(parts);
    parts.arrivals.add(records, complete_ns, messages);
}

/// Finds out which records of processes were lost, and reads again what they may have told.
fn look_for_losses(parts: &mut Parts) {
    let life = parts.kernel.life_counts();
    let life = parts.warnings.checked(life).unwrap_or_default();
    if parts.processes.take_losses(Losses::new(life, parts.side_band.counts())) {
        let recorded = parts.kernel.recorded_processes();
        if let Some(recorded) = parts.warnings.checked(recorded) {
            parts.processes.compare(&recorded);
            tell_of_execs(&mut parts.processes, &parts.exec_hooks);
            parts.processes.read_again();
        }
    }
}

/// Tells the hooks of programs that were executed since the last call.
fn tell_of_execs(processes: &mut Processes, hooks: &HookThread<ExecutedProgram>) {
    for pid in processes.take_executed() {
        let Some((now, false)) = processes.histories().present(pid) else { continue };
        hooks.tell(|| ExecutedProgram {
            pid,
            comm: now.comm.to_owned(),
            exe: now.image.exe.as_ref().map(Into::into),
            at: now.instance.began(),
        });
    }
}

/// Handles what has arrived, in order. True if it was about processes.
fn handle_arrivals(parts: &mut Parts) -> bool {
    let mut busy = false;
    while let Some(arrival) = parts.arrivals.next() {
        let message = match arrival {
            Arrival::Mapping(time_ns, mmap) => {
                let is_known = parts.processes.mapped(&mmap);
                if is_known && mmap.executable {
                    parts.sources.mapped(&mmap);
                }
                if let Some(timeline) = parts.intake.timeline.as_mut().filter(|_| is_known) {
                    timeline.mapping(time_ns, &mmap);
                }
                busy |= is_known;
                continue;
            }
            Arrival::Thread(time_ns, task) => {
                if let Some(timeline) = &mut parts.intake.timeline {
                    timeline.thread(time_ns, &task);
                }
                continue;
            }
            Arrival::Message(message) => message,
        };
        let mut context =
            WalkContext { processes: &parts.processes, tables: &mut parts.tables, kernel: &parts.kernel };
        match message {
            Message::Stack(stack) => parts.intake.take_stack(&stack, &mut context),
            Message::Raw(raw) => {
                busy = true;
                parts.intake.take_raw(raw, &mut context);
            }
            Message::Code(code) => parts.intake.take_code(code, &parts.processes),
            Message::Woken { hash, blocked, waker } => parts.intake.take_pair(hash, blocked, waker),
            Message::Lock(lock) => parts.intake.take_lock(&lock, &parts.processes),
            Message::Life(life) => {
                let is_known = parts.processes.follow(&life);
                if is_known {
                    parts.sources.follow(&life);
                }
                if let Some(timeline) = parts.intake.timeline.as_mut().filter(|_| is_known) {
                    timeline.life(&life, &parts.processes);
                }
                busy |= is_known;
                tell_of_execs(&mut parts.processes, &parts.exec_hooks);
                parts.processes.take_released().for_each(|pid| parts.tables.forget(pid));
            }
            Message::Process { pid, waker_only, is_new } => {
                busy |= is_new;
                parts.processes.asked_for(pid, waker_only, is_new);
            }
            _ => {}
        }
    }
    busy
}
