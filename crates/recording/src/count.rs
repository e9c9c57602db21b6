//! Counts: values of an event for one stack of one task.

use serde::{Deserialize, Serialize};

use crate::event::EventId;
use crate::stack::StackId;
use crate::state::State;
use crate::task::TaskId;

/// Index of a [`TaskStack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskStackId(pub u32);

/// A stack of a task in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskStack {
    /// Whose stack.
    pub task: TaskId,
    /// The frames.
    pub stack: StackId,
    /// What the task was doing.
    pub state: State,
}

/// What a further stack has to do with a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// It ended the wait.
    Waker,
    /// It held what was waited for.
    Owner,
    /// It ended the wait by a call on the same lock: it held the lock last, or signalled.
    Releaser,
    /// The lock itself: a stack of one frame, the variable of a file that it is.
    Place,
}

/// How threads wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// By `FUTEX_WAIT`, as for most mutexes.
    Wait,
    /// By `FUTEX_WAIT_BITSET`, as for most other things.
    WaitBitset,
    /// By `FUTEX_LOCK_PI`, as for mutexes with priority inheritance.
    PriorityInheritance,
    /// As a goroutine, while its thread runs others.
    Goroutine,
    /// In the kernel, for a lock of its own.
    Kernel(KernelLock),
}

/// What kind of lock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KernelLock {
    /// `spinlock_t`: its waiters spin.
    Spin,
    /// `rwlock_t`: they spin, and many may read.
    ReadWrite,
    /// `struct mutex`.
    Mutex,
    /// `struct rw_semaphore`: many may read.
    ReadWriteSemaphore,
    /// `struct rt_mutex`: with priority inheritance.
    RealTime,
    /// `struct percpu_rw_semaphore`: each CPU may read by itself.
    PerCpu,
    /// `struct semaphore`.
    Semaphore,
}

/// What something happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Object {
    /// Its address in the process.
    pub address: u64,
    /// How threads wait for it, if it is a lock.
    pub lock: Option<LockKind>,
}

/// A further stack of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// What it has to do with the count.
    pub role: Role,
    /// The stack.
    pub stack: TaskStackId,
}

/// Values of an event for one stack of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The event, whose schema says what the values are.
    pub event: EventId,
    /// Where it happened.
    pub stack: TaskStackId,
    /// Further stacks by role.
    pub links: Vec<Link>,
    /// What it happened to, as a lock.
    pub object: Option<Object>,
    /// Number of the time bin, where counts are split by time; of [`EventId::LOCK_LENGTHS`](crate::EventId::LOCK_LENGTHS), that of the
    /// lengths: see [`length_bounds`](crate::length_bounds).
    pub time_bin: Option<u32>,
    /// As many values as the event's schema has.
    pub values: Vec<u64>,
}

impl Count {
    /// The value at a position of the schema; 0 if the count has fewer.
    #[must_use]
    pub fn value(&self, position: usize) -> u64 {
        self.values.get(position).copied().unwrap_or(0)
    }

    /// The stack that is linked in a role.
    #[must_use]
    pub fn linked(&self, role: Role) -> Option<TaskStackId> {
        self.links.iter().find(|link| link.role == role).map(|link| link.stack)
    }

    /// The stack that ended the wait.
    #[must_use]
    pub fn waker(&self) -> Option<TaskStackId> {
        self.linked(Role::Waker).or_else(|| self.linked(Role::Releaser))
    }
}
