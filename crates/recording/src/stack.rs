//! Stacks.

use serde::{Deserialize, Serialize};

use crate::frame::FrameId;
use crate::walk_end::WalkEnd;

/// Index of a [`Stack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StackId(pub u32);

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MissingStack {
    /// The thread slept before the capture began and ran again before its stack was read.
    AsleepBefore,
    /// The thread waits for its first moment on a CPU.
    NotRunYet,
    /// The process of a command before it executes the command: the agent's own work, shown in no profile.
    Gate,
}

/// A stack. Many threads may share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stack {
    /// Leaf first: kernel frames, then user frames.
    pub frames: Box<[FrameId]>,
    /// How many of them are kernel frames.
    pub kernel_frames: u32,
    /// How the walk of the user stack ended.
    pub end: WalkEnd,
    /// Why there are no frames, where that is known.
    pub missing: Option<MissingStack>,
}

impl Stack {
    /// The kernel frames and the user frames, each leaf first.
    #[must_use]
    pub fn split(&self) -> (&[FrameId], &[FrameId]) {
        self.frames.split_at(self.frames.len().min(self.kernel_frames as usize))
    }
}
