//! Stacks that the programs sent unwalked: when each is walked in user space, and how the walks ended.

use std::time::{Duration, Instant};

use kernel::{Frame, Kernel, RawStack, WalkEnd};
use recording::{Accounting, EventId};

use super::convert;
use crate::processes::{LostAt, ProcessSnapshot, Processes};
use crate::unwinding::{DeferredStack, DeferredStacks, TableStore, Unwinders, Walked, walk};

/// Time for walks in one round: mappings and tables of other processes wait meanwhile.
const WALKS_PER_ROUND: Duration = Duration::from_millis(5);
/// Addresses in no mapping that are looked at in one round.
const MAX_NOWHERE: usize = 1024;
/// Time for the walks that are left at the end.
const LAST_WALKS: Duration = Duration::from_secs(1);
/// Of this, time for reading files that walks need.
const LAST_FILES: Duration = Duration::from_millis(500);

/// Ends of walks, by number of [`recording::WalkEnd`].
type WalkEnds = [u64; recording::WalkEnd::ALL.len()];

/// Ends of walks, by what took the stacks.
#[derive(Clone, Debug, Default)]
struct EndedWalks {
    /// Of samples, by number of the event.
    sampled: [WalkEnds; EventId::MAX_FURTHER + 1],
    intervals: WalkEnds,
}

/// What is used to walk a stack.
pub(super) struct WalkContext<'a> {
    pub(super) processes: &'a Processes,
    pub(super) tables: &'a mut TableStore,
    pub(super) kernel: &'a Kernel,
}

/// A round of walks.
pub(super) struct WalkRound {
    deadline: Instant,
    /// It is the last one: nothing can be put off.
    last: bool,
}

/// Stacks that are walked in user space.
#[derive(Default)]
pub(super) struct UserWalks {
    /// Stacks that wait for tables.
    waiting: DeferredStacks,
    unwinders: Unwinders,
    /// Bytes of unwalked stacks that have come since this was last asked for.
    unwalked_bytes: usize,
    /// Where stacks led to that ended in no mapping.
    nowhere: Vec<LostAt>,
    ended: EndedWalks,
}

impl UserWalks {
    /// Takes in a stack. If there are too many, gives the oldest one, which can wait no longer.
    pub(super) fn add(&mut self, raw: RawStack) -> Option<DeferredStack> {
        self.unwalked_bytes += raw.len();
        self.waiting.push(raw)
    }

    /// Begins a round, and gives the stacks whose time has come: see [`Self::walk_in_round`].
    pub(super) fn begin_round(
        &mut self,
        tables: &mut TableStore,
        last: bool,
    ) -> (WalkRound, Vec<DeferredStack>) {
        let sections = self.unwinders.take_finished(Duration::ZERO);
        let news = tables.take_news().with_sections(sections);
        if last {
            self.unwinders.may_wait(LAST_FILES);
        }
        let deadline = Instant::now() + if last { LAST_WALKS } else { WALKS_PER_ROUND };
        let due = if last { self.waiting.take() } else { self.waiting.take_due(&news, Instant::now()) };
        (WalkRound { deadline, last }, due)
    }

    /// Walks a stack, if time allows. `None`: it waits. In the last round, a stack for which there is no time is given as far as the kernel
    /// walked it.
    pub(super) fn walk_in_round(
        &mut self,
        deferred: DeferredStack,
        round: &WalkRound,
        context: &mut WalkContext<'_>,
    ) -> Option<(RawStack, Walked)> {
        let is_over = Instant::now() >= round.deadline;
        if is_over && round.last {
            let end = deferred.raw.stack.end;
            Some((deferred.raw, unwalked(end)))
        } else if is_over {
            self.waiting.put_back(deferred);
            None
        } else {
            let wait = !round.last && deferred.is_patient();
            self.walk(deferred, context, wait)
        }
    }

    /// Walks a stack. `None`: it waits for tables, files or mappings. `wait`: it may.
    pub(super) fn walk(
        &mut self,
        mut deferred: DeferredStack,
        context: &mut WalkContext<'_>,
        wait: bool,
    ) -> Option<(RawStack, Walked)> {
        let raw = &deferred.raw;
        let Some(snapshot) = context.processes.histories().at(raw.stack.pid, raw.stack.exec_id) else {
            if wait && deferred.awaits_its_program() {
                self.waiting.put_back(deferred);
                return None;
            }
            return Some((deferred.raw, unwalked(WalkEnd::TableNotReady)));
        };
        match walk(raw, snapshot.image, &mut self.unwinders, context.tables, context.kernel, wait) {
            // The code may be in a mapping that is still to be read.
            Some(walked) if walked.end == WalkEnd::NoMapping && wait && deferred.awaits_mappings() => {
                self.waiting.put_back(deferred);
                None
            }
            Some(walked) => Some((deferred.raw, walked)),
            None => {
                deferred.awaits_files();
                self.waiting.put_back(deferred);
                None
            }
        }
    }

    /// Walks may wait for files from here on, all together for no longer than this.
    pub(super) fn may_wait_for_files(&mut self, time: Duration) {
        self.unwinders.may_wait(time);
    }

    /// Walks the stack of a sleeping thread at once, without waiting for tables.
    pub(super) fn walk_now(
        &mut self,
        raw: &RawStack,
        snapshot: ProcessSnapshot<'_>,
        tables: &mut TableStore,
        kernel: &Kernel,
    ) -> Option<Walked> {
        walk(raw, snapshot.image, &mut self.unwinders, tables, kernel, false)
    }

    /// Notes how the walk of a stack of an event ended, and gives the stack its frames.
    pub(super) fn end(&mut self, raw: &mut RawStack, mut walked: Walked, event: EventId) {
        if walked.left_the_copy {
            // The kernel could have read it: the cause of the kernel holds.
            walked.end = raw.stack.end;
        }
        self.count(event, walked.end);
        if let Some(address) = walked.nowhere.filter(|_| self.nowhere.len() < MAX_NOWHERE) {
            self.nowhere.push(LostAt { pid: raw.stack.pid, time_ns: raw.stack.time_ns, address });
        }
        if walked.end != WalkEnd::Root {
            let pcs: Vec<u64> = walked.frames.iter().map(|frame| frame.pc).collect();
            tracing::debug!(target: "perfagent", pid = raw.stack.pid, end = ?walked.end, bytes = raw.len(), "deferred walk {pcs:x?}");
        }
        raw.stack.user = match walked.frames {
            frames if frames.is_empty() => vec![Frame { pc: raw.pc, exact: true, by_frame_pointer: false }],
            frames => frames,
        };
        raw.stack.end = walked.end;
    }

    /// Counts how a walk of a stack of an event ended.
    pub(super) fn count(&mut self, event: EventId, end: WalkEnd) {
        let ends = match event.sampled_number() {
            Some(number) => self.ended.sampled.get_mut(number),
            None => Some(&mut self.ended.intervals),
        };
        if let Some(count) = ends.and_then(|ends| ends.get_mut(convert::walk_end(end) as usize)) {
            *count += 1;
        }
    }

    /// Whether no stack waits.
    pub(super) fn none_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of unwalked stacks that have come since the last call.
    pub(super) fn take_unwalked_bytes(&mut self) -> usize {
        std::mem::take(&mut self.unwalked_bytes)
    }

    /// Where stacks led to that ended in no mapping, since the last call.
    pub(super) fn take_nowhere(&mut self) -> Vec<LostAt> {
        std::mem::take(&mut self.nowhere)
    }

    /// Drops what walks no longer use.
    pub(super) fn release_unused(&mut self) {
        self.unwinders.release_unused();
    }

    /// Tells the ends of walks so far in this interval.
    pub(super) fn account(&self, accounting: &mut Accounting) {
        let EndedWalks { sampled: [first, further @ ..], intervals } = &self.ended;
        accounting.deferred_walks = [*first, *intervals];
        for (of_event, ends) in accounting.further.iter_mut().zip(further) {
            of_event.deferred_walks = *ends;
        }
    }

    /// The same, for the recording of the interval. The next interval begins with none.
    pub(super) fn end_interval(&mut self, accounting: &mut Accounting) {
        self.account(accounting);
        self.ended = EndedWalks::default();
    }
}

/// A walk that is given up before it has begun.
fn unwalked(end: WalkEnd) -> Walked {
    Walked { frames: Vec::new(), end, left_the_copy: false, nowhere: None }
}
