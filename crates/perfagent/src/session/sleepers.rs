//! Threads that were off their CPU when the capture began. The programs gave their registers; their stacks are read here and walked at
//! once. Then the kernel side tells which of them still sleep: only their stacks are known to be those of the sleep.

use std::collections::HashSet;
use std::time::Duration;

use kernel::{Kernel, Message, RawStack, StackMessage, WalkEnd};

use super::intake::Intake;
use crate::processes::Processes;
use crate::unwinding::{TableStore, Walked};

/// Bytes of a stack that are read at first. Stacks of sleeping threads are shallow.
const FIRST_READ: usize = 4 << 10;
/// Bytes that are read if the walk needs more: as many as the programs send of a stack.
const WHOLE: usize = 60 << 10;

/// How long all walks together wait for files that they need.
const FILES: Duration = Duration::from_millis(300);

/// Takes in the threads that were asleep at the start.
pub(super) fn take_in(
    asleep: Vec<Message>,
    intake: &mut Intake,
    processes: &Processes,
    tables: &mut TableStore,
    kernel: &mut Kernel,
) -> Result<(), kernel::Error> {
    let mut stacks = Vec::new();
    intake.may_wait_for_files(FILES);
    for message in asleep {
        let Message::Raw(raw) = message else { continue };
        stacks.push(match raw.stack.end {
            WalkEnd::NoRegisters => raw.stack,
            end if end.is_no_walk() => raw.stack,
            _ => walk(raw, intake, processes, tables, kernel),
        });
    }
    intake.may_wait_for_files(Duration::ZERO);
    if stacks.is_empty() {
        return Ok(());
    }
    let confirmed = kernel.still_asleep();
    let still: HashSet<u64> =
        confirmed.as_ref().map(|all| all.iter().filter_map(hash_of).collect()).unwrap_or_default();
    for stack in stacks {
        let snapshot = processes.histories().at(stack.pid, stack.exec_id);
        // Without registers, or in a process that was not known yet, there was nothing to walk.
        let was_walked = match stack.end {
            WalkEnd::NoRegisters => false,
            end if end.is_no_walk() => true,
            _ => snapshot.is_some(),
        };
        let walked = was_walked && still.contains(&stack.hash);
        intake.take_sleeper(stack, snapshot, walked);
    }
    confirmed.map(drop)
}

/// The stack of a sleeping thread, walked if its process is known.
fn walk(
    mut raw: RawStack,
    intake: &mut Intake,
    processes: &Processes,
    tables: &mut TableStore,
    kernel: &Kernel,
) -> StackMessage {
    for size in [FIRST_READ, WHOLE] {
        raw.fill(read_stack(raw.stack.pid, raw.bottom(), size));
        let Some(snapshot) = processes.histories().at(raw.stack.pid, raw.stack.exec_id) else { break };
        let Some(Walked { frames, end }) = intake.walk_now(&raw, snapshot, tables, kernel) else { break };
        if end == WalkEnd::Fault && size < WHOLE {
            continue;
        }
        raw.stack.user = frames;
        raw.stack.end = end;
        break;
    }
    raw.stack
}

fn hash_of(message: &Message) -> Option<u64> {
    match message {
        Message::StillAsleep { hash } => Some(*hash),
        _ => None,
    }
}

/// Up to `size` bytes from `address` on. A read ends in front of a page that is not readable.
fn read_stack(pid: u32, address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let read = sys::memory::read(pid, address, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}
