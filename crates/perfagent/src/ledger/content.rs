//! What a ledger says of the samples that its profile consists of: known from the sums when the capture is over. What the
//! programs count is what they did, also for other profiles and for what is left out.

use kernel::WalkEnd;

use super::{Ledger, Mode, NO_WALKS, WALKS, WallClock};

/// What is known of the stack of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackOf {
    /// The user stack was walked, to this end; or there is none.
    Walk(WalkEnd),
    /// There is none: the thread has not run.
    NotRunYet,
    /// There is none: the thread had run before its stack was read.
    AsleepBefore,
}

impl Ledger {
    /// Forgets what was known while the capture went on.
    pub(crate) fn begin_content(&mut self) {
        self.walks = [0; WALKS.len()];
        (self.no_user_stack, self.not_run_yet, self.asleep_before) = (0, 0, 0);
        (self.frames, self.stacks) = (0, 0);
    }

    /// Adds samples with one stack.
    pub(crate) fn add_content(&mut self, stack: StackOf, samples: u64, user_frames: u64) {
        self.stacks += 1;
        self.frames += samples * user_frames;
        match stack {
            StackOf::NotRunYet => self.not_run_yet += samples,
            StackOf::AsleepBefore => self.asleep_before += samples,
            StackOf::Walk(end) if NO_WALKS.contains(&end) => self.no_user_stack += samples,
            StackOf::Walk(end) => {
                let cause = WALKS.iter().position(|(_, cause)| *cause == end);
                cause.into_iter().for_each(|cause| self.walks[cause] += samples);
            }
        }
    }

    /// The ledger of a profile that shows all time, from those of the two that it is made of.
    pub(crate) fn of_wall_clock(on_cpu: &Self, off_cpu: &Self) -> Self {
        let sum = |of: fn(&Self) -> u64| of(on_cpu) + of(off_cpu);
        Self {
            mode: Mode::Wall,
            event: format!("{},{}", on_cpu.event, off_cpu.event),
            samples: sum(|l| l.samples),
            lost_ring_full: sum(|l| l.lost_ring_full),
            lost_map_full: sum(|l| l.lost_map_full),
            lost_no_memory: sum(|l| l.lost_no_memory),
            lost_busy: sum(|l| l.lost_busy),
            lost_unseen: sum(|l| l.lost_unseen),
            outside_namespace: sum(|l| l.outside_namespace),
            skipped_min_block: off_cpu.skipped_min_block,
            skipped_min_block_ns: off_cpu.skipped_min_block_ns,
            wakers_lost: off_cpu.wakers_lost,
            seams_lost: off_cpu.seams_lost,
            wall_clock: Some(WallClock::default()),
            deferred: sum(|l| l.deferred),
            deferred_pending: sum(|l| l.deferred_pending),
            frames_walked: sum(|l| l.frames_walked),
            memo_checked: sum(|l| l.memo_checked),
            memo_differed: sum(|l| l.memo_differed),
            memo_hits: sum(|l| l.memo_hits),
            stacks_sent: sum(|l| l.stacks_sent),
            requests_lost: sum(|l| l.requests_lost),
            threads_lost: sum(|l| l.threads_lost),
            // Those of rate, CPUs and throttling, and what is of the capture as a whole.
            ..on_cpu.clone()
        }
    }
}
