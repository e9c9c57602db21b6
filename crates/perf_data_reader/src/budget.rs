//! The memory and the work that a file may take.

/// Bytes of all tables together.
const MEMORY: usize = 1 << 30;
/// Regions that are copied because processes stop sharing them.
const WORK: usize = 1 << 31;

/// Nothing more may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Budget {
    memory: usize,
    work: usize,
    limit: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { memory: 0, work: 0, limit: MEMORY }
    }
}

impl Budget {
    pub(crate) const LIMIT: usize = MEMORY;

    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Full> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > self.limit { Err(Full) } else { Ok(()) }
    }

    pub(crate) fn refund(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_sub(bytes);
    }

    pub(crate) fn work(&mut self, items: usize) -> Result<(), Full> {
        self.work = self.work.saturating_add(items);
        if self.work > WORK { Err(Full) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.memory
    }
}
