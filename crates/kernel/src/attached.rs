//! What a message can tell of a stack besides its native frames: where it was taken, frames of an interpreter, linked stacks, an
//! object, a time bin.

use crate::abi::skeleton::types::{interpreted_marks, stack_role};
use crate::python_walks::PythonEnd;

const OUTERMOST: u32 = interpreted_marks::INTERPRETED_OUTERMOST.0;
const STAMP_SHIFT: u32 = interpreted_marks::INTERPRETED_STAMP_SHIFT.0;
/// `PYTHON_HALF_LINKED` of `bpf/abi/python.h`.
const HALF_LINKED: u64 = 0x100;

/// A frame of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterpretedFrame {
    /// Address of the code object in the process.
    pub code: u64,
    /// Index of the instruction in the code object, in units of the interpreter.
    pub instruction: u32,
    /// It is the first frame of a call of the interpreter.
    pub outermost: bool,
    /// Distinguishes code objects that have had the same address.
    pub stamp: u32,
}

impl InterpretedFrame {
    /// Decodes a `struct interpreted_frame`.
    pub(crate) fn from_raw(raw: &[u8; 16]) -> Self {
        let (code, instruction, marks) = word_and_halves(raw);
        Self { code, instruction, outermost: marks & OUTERMOST != 0, stamp: marks >> STAMP_SHIFT }
    }
}

/// How the walk of an interpreter's frames went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterpretedWalk {
    /// How it ended.
    pub end: PythonEnd,
    /// The innermost call of the evaluator was not in the chain of frames yet.
    pub half_linked: bool,
}

impl InterpretedWalk {
    /// Decodes the word of its section. None: there is no such end.
    pub(crate) fn from_raw(word: u64) -> Option<Self> {
        let end = PythonEnd::ALL.into_iter().find(|end| *end as u64 == word & 0xff)?;
        Some(Self { end, half_linked: word & HALF_LINKED != 0 })
    }
}

/// What a further stack has to do with the stack of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// It ended the wait.
    Waker = stack_role::ROLE_WAKER.0 as isize,
    /// It held what was waited for.
    Owner = stack_role::ROLE_OWNER.0 as isize,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Waker, Self::Owner];
}

/// A further stack of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkedStack {
    /// What it has to do with the stack of the message.
    pub role: Role,
    /// Its key.
    pub key: u64,
}

impl LinkedStack {
    /// Decodes a `struct linked_stack`. None: there is no such role.
    pub(crate) fn from_raw(raw: &[u8; 16]) -> Option<Self> {
        let (key, role, _) = word_and_halves(raw);
        Some(Self { key, role: Role::ALL.into_iter().find(|known| *known as u32 == role)? })
    }
}

/// What a message tells of a stack besides its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attached {
    /// Frames of an interpreter, innermost first.
    pub interpreted: Vec<InterpretedFrame>,
    /// How the walk of these frames went; none if there was none.
    pub interpreted_walk: Option<InterpretedWalk>,
    /// Further stacks.
    pub links: Vec<LinkedStack>,
    /// Address of the object of the event, such as a lock.
    pub object: Option<u64>,
    /// Number of the time bin, if counts are split by time.
    pub time_bin: Option<u32>,
}

/// Where a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledAt {
    /// The CPU.
    pub cpu: u32,
    /// How often the side of the sums had changed. It tells the interval of the sample's sum: see
    /// [`Cut::side_changes`](crate::Cut::side_changes). It wraps around.
    pub side_changes: u32,
}

impl SampledAt {
    /// Decodes a `struct sampled_at`.
    pub(crate) fn from_raw(raw: &[u8; 8]) -> Self {
        let [a, b, c, d, side @ ..] = *raw;
        Self { cpu: u32::from_ne_bytes([a, b, c, d]), side_changes: u32::from_ne_bytes(side) }
    }
}

/// A word and two half words, in the byte order of this machine.
fn word_and_halves(raw: &[u8; 16]) -> (u64, u32, u32) {
    let [word @ .., a, b, c, d, e, f, g, h] = *raw;
    (u64::from_ne_bytes(word), u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}
