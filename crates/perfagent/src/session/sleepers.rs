//! Threads that were off their CPU when the capture began. The programs gave their registers; their stacks are read here and walked at
//! once. Then the kernel side tells which of them still sleep: only their stacks are known to be those of the sleep.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use kernel::{Kernel, Message, RawStack, StackMessage, WalkEnd};

use super::intake::Intake;
use super::lock_owners;
use crate::processes::Processes;
use crate::unwinding::{TableStore, Walked};

/// Stacks of one process that are read at once.
const STACKS: usize = 64;
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
    let (mut stacks, mut unwalked): (_, BTreeMap<u32, Vec<RawStack>>) = (Vec::new(), BTreeMap::new());
    for message in asleep {
        let Message::Raw(raw) = message else { continue };
        match raw.stack.end {
            WalkEnd::NoRegisters | WalkEnd::Code32Bit => stacks.push(raw.stack),
            end if end.is_no_walk() => stacks.push(raw.stack),
            _ => unwalked.entry(raw.stack.pid).or_default().push(raw),
        }
    }
    let pids: Vec<u32> = unwalked.keys().copied().collect();
    let found = intake.find_pythons(&pids, processes, kernel);
    intake.walks.may_wait_for_files(FILES);
    for (pid, mut raws) in unwalked {
        let before = stacks.len();
        while !raws.is_empty() {
            let some = raws.split_off(raws.len().saturating_sub(STACKS));
            stacks.extend(walk_all(pid, some, intake, processes, tables, kernel));
        }
        let walked = stacks.get_mut(before..).unwrap_or_default();
        intake.read_python_asleep(pid, walked, processes);
    }
    intake.walks.may_wait_for_files(Duration::ZERO);
    if stacks.is_empty() {
        return found;
    }
    if intake.records_locks() {
        intake.add_owners_asleep(lock_owners::of_sleepers(&stacks, processes));
    }
    let confirmed = kernel.still_asleep();
    let still: HashSet<u64> =
        confirmed.as_ref().map(|all| all.iter().filter_map(hash_of).collect()).unwrap_or_default();
    for stack in stacks {
        let snapshot = processes.histories().at(stack.pid, stack.exec_id);
        // Without registers or memory, or in a process that was not known yet, there was nothing to walk.
        let was_walked = match stack.end {
            WalkEnd::NoRegisters => false,
            end if end.is_no_walk() => true,
            _ => snapshot.is_some(),
        };
        let walked = was_walked && still.contains(&stack.hash);
        intake.take_sleeper(stack, snapshot, walked);
    }
    found.and(confirmed.map(drop))
}

/// The stacks of sleeping threads of one process, walked if the process is known and its memory can be read.
fn walk_all(
    pid: u32,
    mut raws: Vec<RawStack>,
    intake: &mut Intake,
    processes: &Processes,
    tables: &mut TableStore,
    kernel: &Kernel,
) -> Vec<StackMessage> {
    let mut stacks = Vec::with_capacity(raws.len());
    for size in [FIRST_READ, WHOLE] {
        let parts = raws.iter().map(|raw| (raw.bottom(), size)).collect();
        let Some(memory) = processes.read_memory(pid, parts) else { break };
        for (mut raw, bytes) in std::mem::take(&mut raws).into_iter().zip(memory) {
            raw.fill(bytes);
            let snapshot = processes.histories().at(raw.stack.pid, raw.stack.exec_id);
            match snapshot.and_then(|snapshot| intake.walks.walk_now(&raw, snapshot, tables, kernel)) {
                Some(Walked { end: WalkEnd::Fault, .. }) if size < WHOLE => raws.push(raw),
                Some(Walked { frames, end, left_the_copy, .. }) => {
                    raw.stack.user = frames;
                    if !left_the_copy {
                        raw.stack.end = end;
                    }
                    stacks.push(raw.stack);
                }
                None => stacks.push(raw.stack),
            }
        }
        if raws.is_empty() {
            return stacks;
        }
    }
    // Pages of these stacks do not come.
    stacks.extend(raws.into_iter().map(|raw| StackMessage { end: WalkEnd::NoRegisters, ..raw.stack }));
    stacks
}

fn hash_of(message: &Message) -> Option<u64> {
    match message {
        Message::StillAsleep { hash } => Some(*hash),
        _ => None,
    }
}
