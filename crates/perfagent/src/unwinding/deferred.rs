//! Stacks that were sent unwalked and wait for unwind tables, up to a limit in bytes.

use std::time::{Duration, Instant};

use kernel::RawStack;

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
}

/// All stacks that wait.
#[derive(Default)]
pub(crate) struct DeferredStacks {
    stacks: Vec<DeferredStack>,
    bytes: usize,
}

impl DeferredStacks {
    /// Keeps a stack. If there are too many bytes, the oldest stack is given back, to be recorded as far as it can be walked.
    pub(crate) fn push(&mut self, raw: RawStack) -> Option<DeferredStack> {
        self.bytes += raw.len();
        self.stacks.push(DeferredStack { raw, since: Instant::now() });
        if self.bytes <= MAX_BYTES {
            return None;
        }
        let oldest = self.stacks.remove(0);
        self.bytes -= oldest.raw.len();
        Some(oldest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Takes all of them. Those that go on waiting come back by [`Self::put_back`].
    pub(crate) fn take(&mut self) -> Vec<DeferredStack> {
        self.bytes = 0;
        std::mem::take(&mut self.stacks)
    }

    pub(crate) fn put_back(&mut self, deferred: DeferredStack) {
        self.bytes += deferred.raw.len();
        self.stacks.push(deferred);
    }
}

impl DeferredStack {
    /// Whether mappings of its process may still be on their way.
    pub(crate) fn is_fresh(&self) -> bool {
        self.since.elapsed() < FRESH
    }

    /// Whether the program that it is of may still become known.
    pub(crate) fn may_have_a_program(&self) -> bool {
        self.since.elapsed() < PROGRAM
    }

    /// Whether a table is still worth waiting for.
    pub(crate) fn is_patient(&self) -> bool {
        self.since.elapsed() < PATIENCE
    }
}
