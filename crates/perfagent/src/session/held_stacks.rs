//! Stacks with a frame in a file that is still to be opened. They are held until it is known where the frame lies: for as long as a stack
//! waits for unwind tables, and up to a limit.

use std::time::{Duration, Instant};

use kernel::{Frame, StackMessage};
use process::{Image, RegionKind};
use profile::Avma;

use crate::processes::Processes;

/// A file that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stacks that are held.
const MAX_STACKS: usize = 4096;

/// Stacks that are held, the oldest first.
#[derive(Default)]
pub(super) struct HeldStacks(Vec<(StackMessage, Instant)>);

impl HeldStacks {
    /// Whether a stack is to be held.
    pub(super) fn wants(&self, stack: &StackMessage, image: &Image) -> bool {
        self.0.len() < MAX_STACKS && awaits_file(stack, image)
    }

    /// Holds a stack.
    pub(super) fn push(&mut self, stack: StackMessage) {
        self.0.push((stack, Instant::now()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the stacks whose files are known by now, and those that have waited too long; at the end (`last`) all of them.
    pub(super) fn take_ready(&mut self, processes: &Processes, last: bool) -> Vec<StackMessage> {
        let is_ready = |(stack, since): &mut (StackMessage, Instant)| {
            last || since.elapsed() >= PATIENCE || {
                let now = processes.histories().at(stack.pid, stack.exec_id);
                now.is_none_or(|now| !awaits_file(stack, now.image))
            }
        };
        self.0.extract_if(.., is_ready).map(|(stack, _)| stack).collect()
    }
}

fn awaits_file(stack: &StackMessage, image: &Image) -> bool {
    let is_opening = |frame: &Frame| {
        let region = image.find(Avma(frame.pc - u64::from(!frame.exact)));
        region.is_some_and(|region| matches!(region.kind(), RegionKind::Opening(_)))
    };
    image.is_opening() && stack.user.iter().any(is_opening)
}
