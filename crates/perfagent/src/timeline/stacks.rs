//! Stacks by the key of their sums, and samples whose stack is on its way.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::{Event, SampledAt, SingleSample, StackMessage};

/// Stacks that are kept at most. Samples of others are lost.
const MAX_STACKS: usize = 1 << 18;
/// Samples that wait for their stack at most.
const MAX_WAITING: usize = 1 << 17;

/// The addresses of a stack, the leaf of each part first.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) exec_id: u64,
    pid: u32,
    kernel_frames: usize,
    frames: Box<[u64]>,
}

impl Chain {
    pub(super) fn of(stack: &StackMessage) -> Self {
        let frames = stack.kernel.iter().copied().chain(stack.user.iter().map(|frame| frame.pc)).collect();
        Self { pid: stack.pid, exec_id: stack.exec_id, kernel_frames: stack.kernel.len(), frames }
    }

    /// Kernel frames, and user frames.
    pub(super) fn frames(&self) -> (&[u64], &[u64]) {
        self.frames.split_at_checked(self.kernel_frames).unwrap_or_default()
    }
}

/// One sample with its stack.
#[derive(Debug)]
pub(super) struct TimedSample {
    pub(super) event: Event,
    pub(super) time_ns: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) at: SampledAt,
    /// Where the thread was interrupted; 0 if that is not known.
    pub(super) pc: u64,
    /// By the schema of the event.
    pub(super) value: u64,
    pub(super) chain: Arc<Chain>,
}

/// A known stack.
#[derive(Debug)]
struct Known {
    /// `None`: samples with it are left out.
    chain: Option<Arc<Chain>>,
    /// How often the sums had been taken when it was sent.
    drains: u64,
    /// No second sample has it.
    once: bool,
}

/// Stacks, and samples without one.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    known: HashMap<u64, Known>,
    waiting: Vec<SingleSample>,
    drains: u64,
    lost: u64,
}

impl Stacks {
    /// Enters a stack. `once`: no second sample has it.
    pub(super) fn enter(&mut self, stack: &StackMessage, once: bool) {
        if self.known.len() < MAX_STACKS || self.known.contains_key(&stack.hash) {
            let known = Known { chain: Some(Arc::new(Chain::of(stack))), drains: self.drains, once };
            self.known.insert(stack.hash, known);
        }
    }

    /// Enters a stack whose samples are left out, without being lost.
    pub(super) fn leave_out(&mut self, stack: &StackMessage) {
        let known = Known { chain: None, drains: self.drains, once: false };
        self.known.insert(stack.hash, known);
    }

    pub(super) fn add(&mut self, sample: SingleSample) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(sample);
        } else {
            self.lost += 1;
        }
    }

    /// Samples that were lost here since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The samples whose stacks are known by now. `last`: no stack comes any more, and samples without one are lost.
    pub(super) fn take_ready(&mut self, last: bool) -> Vec<TimedSample> {
        let mut ready = Vec::new();
        let known = &mut self.known;
        self.waiting.retain(|sample| {
            let Some(Known { chain, once, .. }) = known.get(&sample.hash) else { return true };
            let (Some(chain), once) = (chain.clone(), *once) else { return false };
            let SingleSample { event, time_ns, pid, tid, at, pc, values: [value, ..], .. } = *sample;
            ready.push(TimedSample { event, time_ns, pid, tid, at, pc, value, chain });
            if once {
                known.remove(&sample.hash);
            }
            false
        });
        if last {
            self.lost += std::mem::take(&mut self.waiting).len() as u64;
        }
        ready
    }

    /// The sums of the kernel side were taken, and with them all samples so far. Drops stacks that are sent again before the next sample:
    /// the programs know only those of the present side. The stack of a wait is sent when it begins, so it is kept until its
    /// process can have none any more.
    pub(super) fn drained(&mut self, mut may_come: impl FnMut(u32, u64) -> bool) {
        self.drains += 1;
        let recent = self.drains - 1;
        self.known.retain(|hash, known| match Event::of_key(*hash) {
            Some(Event::Clock) => known.drains >= recent,
            _ => known.chain.as_ref().is_none_or(|chain| may_come(chain.pid, chain.exec_id)),
        });
    }
}

#[cfg(test)]
mod tests {
    use kernel::{Attached, State, WalkEnd};

    use super::*;

    const CLOCK: u64 = 0x100;
    /// The low byte tells event and state.
    const WAIT: u64 = 0x211;

    fn stack(hash: u64) -> StackMessage {
        StackMessage {
            hash,
            pid: 7,
            tid: 7,
            exec_id: 5,
            end: WalkEnd::Root,
            state: State::of_key(hash),
            event: Event::of_key(hash).unwrap(),
            thread: String::new(),
            time_ns: 1,
            kernel: vec![9],
            user: Vec::new(),
            attached: Box::new(Attached::default()),
        }
    }

    fn is_known(stacks: &mut Stacks, hash: u64) -> bool {
        let Some(Known { chain: Some(chain), .. }) = stacks.known.get(&hash) else { return false };
        chain.frames() == (&[9][..], &[][..])
    }

    #[test]
    fn a_stack_of_the_clock_is_kept_as_long_as_a_side_of_sums_that_of_a_wait_as_long_as_its_process() {
        let mut stacks = Stacks::default();
        stacks.enter(&stack(CLOCK), false);
        stacks.enter(&stack(WAIT), false);
        stacks.drained(|_, _| true);
        assert!(is_known(&mut stacks, CLOCK), "the programs may have sent it after the sides were changed");
        stacks.drained(|_, _| true);
        assert!(!is_known(&mut stacks, CLOCK) && is_known(&mut stacks, WAIT));
        stacks.drained(|pid, exec_id| (pid, exec_id) != (7, 5));
        assert!(!is_known(&mut stacks, WAIT));
    }
}
