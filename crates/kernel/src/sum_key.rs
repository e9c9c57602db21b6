//! What the key of a sum says: the state of the thread and the event that was counted.

use crate::abi::skeleton::types;

/// What the sums of a stack are sums of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Samples of a running thread.
    Sampled = types::off_state::OFF_NONE.0 as isize,
    /// Time asleep, in any way that is not `IoWait`.
    Blocked = types::off_state::OFF_BLOCKED.0 as isize,
    /// Time in uninterruptible sleep that adds to load.
    IoWait = types::off_state::OFF_IOWAIT.0 as isize,
    /// Time in which the thread could have run, but had no CPU.
    Preempted = types::off_state::OFF_PREEMPTED.0 as isize,
    /// Time on a CPU, of a process or thread; without frames.
    OnCpu = 4,
    /// None: it is the stack of who wakes others.
    Waker = 5,
    /// The same; the kernel frames tell whether it was an interrupt, or work that a system call had put off.
    WakerInSoftirq = 6,
    /// As `Preempted`: from the making of a thread to its first moment on a CPU.
    NotRunYet = 7,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Sampled,
        Self::Blocked,
        Self::IoWait,
        Self::Preempted,
        Self::OnCpu,
        Self::Waker,
        Self::WakerInSoftirq,
        Self::NotRunYet,
    ];

    /// What the sums under a key are of: `KEY_STATE` of `bpf/abi.h`. The programs give no key with another number; it would
    /// count as [`Self::Sampled`].
    #[must_use]
    pub fn of_key(key: u64) -> Self {
        Self::try_from((key & 0xf) as u32).unwrap_or(Self::Sampled)
    }

    /// Whether it is the stack of who wakes others.
    #[must_use]
    pub fn is_waker(self) -> bool {
        matches!(self, Self::Waker | Self::WakerInSoftirq)
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl TryFrom<u32> for State {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|state| *state as u32 == number).ok_or(number)
    }
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Event {
    /// The sampler's clock: a count is a sample.
    Clock = types::event::EVENT_CLOCK.0 as isize,
    /// The scheduler: a count is a stretch of a thread.
    Scheduler = types::event::EVENT_SCHEDULER.0 as isize,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Clock, Self::Scheduler];

    /// What counts under a key: `KEY_EVENT_SHIFT` of `bpf/abi.h`. None: the programs give no such key.
    #[must_use]
    pub fn of_key(key: u64) -> Option<Self> {
        Self::try_from((key >> 4 & 0xf) as u32).ok()
    }
}

impl TryFrom<u32> for Event {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|event| *event as u32 == number).ok_or(number)
    }
}
