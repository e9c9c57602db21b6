//! The owners of stacks: processes, threads, and programs that make code at run time.

use profile::Label;
use serde::{Deserialize, Serialize};

/// Index of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Index of a set of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelSetId(pub u32);

/// Index of an [`ExecInstance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecInstanceId(pub u32);

/// A thread as outputs show it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadId {
    /// Its number. For a waker it only tells whether the waker is a thread (1) or an interrupt (0).
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A process or thread that samples are charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Process number; none for a waker.
    pub pid: Option<u32>,
    /// Labels of the process without its number, `comm` first.
    pub labels: LabelSetId,
    /// The thread, if threads are kept apart or it is a waker.
    pub thread: Option<ThreadId>,
}

/// A program in a process: from a fork or exec to the next exec or the end of the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecInstance {
    /// Process number.
    pub pid: u32,
    /// When it began, ns since the epoch.
    pub began_ns: i64,
    /// When it ended, ns since the epoch, if it did.
    pub ended_ns: Option<i64>,
    /// Labels of the process.
    pub labels: Vec<Label>,
}
