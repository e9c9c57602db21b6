//! Threads that were off their CPU when the capture began. The programs gave their registers; their stacks are read here,
//! and walked at once. Which of them have slept on meanwhile is asked afterwards: only those stacks are what they were.

use std::collections::HashSet;

use kernel::{Message, RawStack, StackMessage, WalkEnd};

use super::deferred::{self, Walked};
use super::{Capture, Off};

/// Stacks of sleeping threads are shallow: so much is read first, and all that is walked of a stack only if need be.
const FIRST_READ: usize = 4 << 10;
const WHOLE: usize = 60 << 10;

impl Capture {
    /// Takes in the threads that were asleep at the start.
    pub(super) fn meet_sleepers(&mut self) {
        let mut stacks = Vec::new();
        for message in std::mem::take(&mut self.asleep) {
            let Message::Raw(raw) = message else { continue };
            stacks.push(match raw.stack.end {
                WalkEnd::NoRegisters => raw.stack,
                end if end.is_no_walk() => raw.stack,
                _ => self.walk_sleeper(raw),
            });
        }
        if stacks.is_empty() {
            return;
        }
        let confirmed = self.kernel.still_asleep();
        let confirmed: HashSet<u64> =
            self.checked(confirmed).unwrap_or_default().iter().filter_map(asleep).collect();
        for stack in stacks {
            let snapshot = self.processes.at(stack.pid, stack.image);
            // Without registers, or of a process that has come up meanwhile, there was nothing to walk.
            let walked = match stack.end {
                WalkEnd::NoRegisters => false,
                end if end.is_no_walk() => true,
                _ => snapshot.is_some(),
            };
            if walked && confirmed.contains(&stack.hash) {
                if !stack.end.is_no_walk() {
                    self.deferred_ends[Off::Yes as usize][stack.end as usize] += 1;
                }
                self.stacks.enter(&stack, snapshot, false);
            } else {
                self.stacks.enter_asleep(stack, snapshot);
            }
        }
    }

    /// The stack of a sleeping thread, walked if its process is known.
    fn walk_sleeper(&mut self, mut raw: RawStack) -> StackMessage {
        for size in [FIRST_READ, WHOLE] {
            raw.fill(read_stack(raw.stack.pid, raw.bottom(), size));
            let Some(snapshot) = self.processes.at(raw.stack.pid, raw.stack.image) else { break };
            let (unwinders, tables) = (&mut self.unwinders, &mut self.tables);
            let walked = deferred::walk(&raw, snapshot.image, unwinders, tables, &self.kernel, false);
            let Some(Walked { frames, end }) = walked else { break };
            if end == WalkEnd::Fault && size < WHOLE {
                continue;
            }
            raw.stack.user = frames;
            raw.stack.end = end;
            break;
        }
        raw.stack
    }
}

fn asleep(message: &Message) -> Option<u64> {
    match message {
        Message::StillAsleep { hash } => Some(*hash),
        _ => None,
    }
}

/// Up to `size` bytes from `address` on, as far as they are readable; a read ends in front of a page that is not.
fn read_stack(pid: u32, address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let read = sys::memory::read(pid, address, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}
