//! What a thread was doing when its stack was taken.

use serde::{Deserialize, Serialize};

use crate::off_cpu_state::OffCpuState;

/// What a thread was doing when its stack was taken, or what the stack is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It ran on a CPU, and an event of that CPU took a sample.
    Sampled,
    /// It slept, in any way that is not `IoWait`.
    Blocked,
    /// It was in uninterruptible sleep that adds to the load.
    IoWait,
    /// It could run, but had no CPU.
    Preempted,
    /// It ran on a CPU: the time that the scheduler accounts for a whole process or thread, without frames.
    OnCpu,
    /// It woke another thread.
    Waker,
    /// It woke another thread from a soft interrupt; the kernel frames tell whether that was an interrupt or work deferred by a system
    /// call.
    WakerInSoftirq,
    /// It was created and waited for its first moment on a CPU.
    NotRunYet,
    /// Its stack has allocated objects that were freed.
    Freed,
}

impl State {
    /// All states, in the order of their numbers.
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

    /// Whether the stack is that of a thread that woke another one.
    #[must_use]
    pub fn is_waker(self) -> bool {
        matches!(self, Self::Waker | Self::WakerInSoftirq)
    }

    /// The state of an off-CPU interval as outputs show it; `None` for everything else.
    #[must_use]
    pub fn off_cpu(self) -> Option<OffCpuState> {
        match self {
            Self::Blocked => Some(OffCpuState::Blocked),
            Self::IoWait => Some(OffCpuState::IoWait),
            Self::Preempted | Self::NotRunYet => Some(OffCpuState::Preempted),
            Self::Sampled | Self::OnCpu | Self::Waker | Self::WakerInSoftirq | Self::Freed => None,
        }
    }

    /// Whether values of this state are time.
    #[must_use]
    pub fn is_time(self) -> bool {
        self == Self::OnCpu || self.off_cpu().is_some()
    }
}
