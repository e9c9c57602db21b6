//! What is told of locks.

use std::time::Duration;

use super::class::LockClass;

/// Waits that have a stack in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackShare {
    /// The functions, innermost first, without those of the lock itself and those that begin a thread.
    pub functions: Vec<String>,
    /// The name of the thread, of a waker.
    pub thread: Option<String>,
    /// How many waits.
    pub waits: u64,
    /// Their time.
    pub time_ns: u64,
}

/// What the thread that held the lock did when a wait began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HeldBy {
    /// It waited itself, with these functions, innermost first.
    Waiting(Vec<String>),
    /// It ran on a CPU.
    Running,
    /// It could run, and had no CPU.
    Runnable,
    /// It is not known: it had let go again, or the lock does not tell its owner.
    Unknown,
}

/// A lock, or a place where threads wait for others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockRow {
    /// What kind of lock.
    pub class: LockClass,
    /// A held lock: its variable, or its address. Else the place where threads wait, as the functions of `waiters`.
    pub name: String,
    /// The name of its process.
    pub process: String,
    /// The number of its process, if it is one alone.
    pub pid: Option<u32>,
    /// How many processes have such a lock.
    pub processes: usize,
    /// The name of the file that the lock is a variable of.
    pub file: Option<String>,
    /// The lowest address of the lock.
    pub address: u64,
    /// How many locks there are: of places where threads wait, each thread may have its own.
    pub locks: usize,
    /// How many waits ended.
    pub waits: u64,
    /// Their time, and that of waits that go on.
    pub time_ns: u64,
    /// The longest wait; 0 if none has ended.
    pub longest_ns: u64,
    /// The length that 99 of 100 waits do not exceed, within an eighth.
    pub p99_ns: Option<u64>,
    /// How many waits ended by a call on the same lock.
    pub released: u64,
    /// Where threads wait, most time first.
    pub waiters: Vec<StackShare>,
    /// What the owner did when the waits began, most waits first.
    pub owners: Vec<(HeldBy, u64)>,
    /// Who ended the waits, most waits first.
    pub wakers: Vec<StackShare>,
}

/// Which locks threads wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// Of which target.
    pub target: String,
    /// Length of the capture.
    pub duration: Duration,
    /// Locks that one thread holds while others wait, those first for which most time was waited.
    pub held: Vec<LockRow>,
    /// Places where threads wait for something else of other threads, likewise.
    pub others: Vec<LockRow>,
    /// Waits that were lost.
    pub lost: u64,
}
