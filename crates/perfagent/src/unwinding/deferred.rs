//! Stacks that were sent unwalked and wait for unwind tables, up to a limit in bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kernel::RawStack;

use super::news::News;

/// A table that takes longer is not waited for. It is much time because workers compile slowly on a machine with many more busy threads than
/// CPUs; a file that does not answer is given up long before, by those who read it.
const PATIENCE: Duration = Duration::from_secs(60);
/// A program that is not known after this time has ended, and is forgotten.
const PROGRAM: Duration = Duration::from_secs(5);
/// Mappings of a process may arrive this much later than its stacks.
const FRESH: Duration = Duration::from_millis(200);
/// Bytes of stacks that may wait.
const MAX_BYTES: usize = 32 << 20;

/// A stack that waits.
pub(crate) struct DeferredStack {
    pub(crate) raw: RawStack,
    since: Instant,
    /// When it is walked again though there are no news. `None`: it is still to be walked.
    again: Option<Instant>,
}

/// All stacks that wait, the oldest first.
#[derive(Default)]
pub(crate) struct DeferredStacks {
    stacks: VecDeque<DeferredStack>,
    bytes: usize,
}

impl DeferredStacks {
    /// Keeps a stack. If there are too many bytes, the oldest stack is given back, to be recorded as far as it can be walked.
    pub(crate) fn push(&mut self, raw: RawStack) -> Option<DeferredStack> {
        self.put_back(DeferredStack { raw, since: Instant::now(), again: None });
        if self.bytes <= MAX_BYTES {
            return None;
        }
        let oldest = self.stacks.pop_front()?;
        self.bytes -= oldest.raw.len();
        Some(oldest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Takes all of them.
    pub(crate) fn take(&mut self) -> Vec<DeferredStack> {
        self.bytes = 0;
        std::mem::take(&mut self.stacks).into()
    }

    /// Takes those that a walk may bring further now: that were not walked yet, that news may concern, or whose time has come. Those that go
    /// on waiting come back by [`Self::put_back`].
    pub(crate) fn take_due(&mut self, news: &News, now: Instant) -> Vec<DeferredStack> {
        let mut due = Vec::new();
        for stack in self.take() {
            if stack.again.is_none_or(|again| again <= now) || news.concern(stack.raw.stack.pid) {
                due.push(stack);
            } else {
                self.put_back(stack);
            }
        }
        due
    }

    /// It was not walked, or goes on waiting.
    pub(crate) fn put_back(&mut self, deferred: DeferredStack) {
        self.bytes += deferred.raw.len();
        self.stacks.push_back(deferred);
    }
}

impl DeferredStack {
    /// Lets it wait for mappings of its process. False: they are not on their way any more.
    pub(crate) fn awaits_mappings(&mut self) -> bool {
        self.awaits(FRESH)
    }

    /// Lets it wait for the program that it is of. False: that has ended.
    pub(crate) fn awaits_its_program(&mut self) -> bool {
        self.awaits(PROGRAM)
    }

    /// Lets it wait for a table or frame sections, as long as that is worth it: see [`Self::is_patient`].
    pub(crate) fn awaits_files(&mut self) {
        self.awaits(PATIENCE);
    }

    /// Whether a table is still worth waiting for.
    pub(crate) fn is_patient(&self) -> bool {
        self.since.elapsed() < PATIENCE
    }

    /// Without news it is walked again when so much time has passed since it came. False: it has.
    fn awaits(&mut self, time: Duration) -> bool {
        self.again = Some(self.since + time);
        self.since.elapsed() < time
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// As the programs send it: kind 3, and a section of registers.
    fn stack(pid: u32) -> RawStack {
        const REGISTERS: u16 = 3;
        let registers = if cfg!(target_arch = "aarch64") { 33 } else { 17 };
        let mut bytes: Vec<u8> = [3, pid, pid, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend([0; 16]);
        bytes.extend((8 + 8 * registers as u32).to_ne_bytes());
        bytes.extend([0; 4 + 16 + 8]);
        bytes.extend([REGISTERS.to_ne_bytes(), [0; 2]].concat());
        bytes.extend((8 * registers as u32).to_ne_bytes());
        bytes.extend(vec![0; 8 * registers]);
        match kernel::decode_message(&bytes) {
            Some(kernel::Message::Raw(raw)) => raw,
            other => panic!("{other:?}"),
        }
    }

    fn taken(stacks: &mut DeferredStacks, news: &News, later: Duration) -> Vec<u32> {
        let due = stacks.take_due(news, Instant::now() + later);
        let pids = due.iter().map(|one| one.raw.stack.pid).collect();
        for mut one in due {
            one.awaits_files();
            stacks.put_back(one);
        }
        pids
    }

    #[test]
    fn a_stack_is_walked_again_only_after_news_that_may_concern_it() {
        let mut stacks = DeferredStacks::default();
        for pid in [7, 8] {
            assert!(stacks.push(stack(pid)).is_none());
        }
        let none = News::default();
        assert_eq!(taken(&mut stacks, &none, Duration::ZERO), [7, 8], "they were not walked yet");
        assert_eq!(taken(&mut stacks, &none, Duration::ZERO), [0; 0]);
        let of_process = News { processes: HashSet::from([8]), ..News::default() };
        assert_eq!(taken(&mut stacks, &of_process, Duration::ZERO), [8]);
        assert_eq!(taken(&mut stacks, &News::default().with_sections(true), Duration::ZERO), [7, 8]);
        assert_eq!(taken(&mut stacks, &none, PATIENCE / 2), [0; 0]);
        assert_eq!(taken(&mut stacks, &none, PATIENCE), [7, 8], "they are given up");
    }

    #[test]
    fn what_was_not_reached_in_a_round_is_walked_in_the_next_one() {
        let mut stacks = DeferredStacks::default();
        stacks.push(stack(7));
        let due = stacks.take_due(&News::default(), Instant::now());
        due.into_iter().for_each(|one| stacks.put_back(one));
        assert_eq!(taken(&mut stacks, &News::default(), Duration::ZERO), [7]);
        assert!(stacks.take()[0].awaits_its_program());
    }
}
