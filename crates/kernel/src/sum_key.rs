//! What the key of a sum says: the state of the thread and the event that was counted.

use crate::abi::skeleton::types;

/// The state of a thread to which a sum belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Running, found by the sampler.
    Sampled = types::off_state::OFF_NONE.0 as isize,
    /// Asleep, except as `IoWait`.
    Blocked = types::off_state::OFF_BLOCKED.0 as isize,
    /// In uninterruptible sleep that counts as load.
    IoWait = types::off_state::OFF_IOWAIT.0 as isize,
    /// Runnable, without a CPU.
    Preempted = types::off_state::OFF_PREEMPTED.0 as isize,
    /// On a CPU. These sums are of a process or thread and have no frames.
    OnCpu = 4,
    /// Not a state: the stack of a thread that wakes another.
    Waker = 5,
    /// As `Waker`, in a softirq. The kernel frames show whether it ran in an interrupt, or was deferred work of a system
    /// call.
    WakerInSoftirq = 6,
    /// As `Preempted`, from the creation of a thread to its first time on a CPU.
    NotRunYet = 7,
    /// Not a state: objects that the stack has allocated and that were freed.
    Freed = 8,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Sampled,
        Self::Blocked,
        Self::IoWait,
        Self::Preempted,
        Self::OnCpu,
        Self::Waker,
        Self::WakerInSoftirq,
        Self::NotRunYet,
        Self::Freed,
    ];

    /// The state in a key: `KEY_STATE` of `bpf/abi/sums.h`. The programs make no key with an unknown number; it would count as
    /// [`Self::Sampled`].
    #[must_use]
    pub fn of_key(key: u64) -> Self {
        Self::try_from((key & 0xf) as u32).unwrap_or(Self::Sampled)
    }

    /// Whether the stack is that of a waker.
    #[must_use]
    pub fn is_waker(self) -> bool {
        matches!(self, Self::Waker | Self::WakerInSoftirq)
    }

    /// The key of the objects that were freed of those that were allocated under this key.
    #[must_use]
    pub fn freed_key(allocated: u64) -> u64 {
        allocated & !0xf | Self::Freed as u64
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

/// The event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Event {
    /// The sampler's clock, or the first event that takes its place: a count is a sample.
    Clock = types::event::EVENT_CLOCK.0 as isize,
    /// The scheduler: a count is an interval of a thread on or off CPU.
    Scheduler = types::event::EVENT_SCHEDULER.0 as isize,
    /// Waits for locks: a count is a wait. Each is an interval of the scheduler too.
    Lock = types::event::EVENT_LOCK.0 as isize,
    /// The same waits by their length.
    LockLength = types::event::EVENT_LOCK_LENGTH.0 as isize,
    /// The second event that is sampled.
    Second = types::event::EVENT_SECOND.0 as isize,
    /// The third one.
    Third = types::event::EVENT_THIRD.0 as isize,
    /// The fourth one.
    Fourth = types::event::EVENT_FOURTH.0 as isize,
    /// The fifth one.
    Fifth = types::event::EVENT_FIFTH.0 as isize,
    /// The sixth one.
    Sixth = types::event::EVENT_SIXTH.0 as isize,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Clock,
        Self::Scheduler,
        Self::Lock,
        Self::LockLength,
        Self::Second,
        Self::Third,
        Self::Fourth,
        Self::Fifth,
        Self::Sixth,
    ];

    /// Those that are sampled, in their order: the clock, or the event that takes its place, and further ones.
    pub const SAMPLED: [Self; 6] =
        [Self::Clock, Self::Second, Self::Third, Self::Fourth, Self::Fifth, Self::Sixth];

    /// Its number among the sampled events.
    #[must_use]
    pub fn sampled_number(self) -> Option<usize> {
        Self::SAMPLED.iter().position(|event| *event == self)
    }

    /// The event in a key: `KEY_EVENT_SHIFT` of `bpf/abi/sums.h`. The programs make no key with an unknown number, for which this
    /// is none.
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
