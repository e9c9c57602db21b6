//! Where the Python frames of a stack stand among its native frames.
//!
//! Each call of the evaluator is one native frame and runs the Python frames of one *segment*, so evaluators and segments are paired, from
//! the inside outward. The number of both tells whether the pairs are right:
//!
//! | evaluators and segments | meaning |
//! |---|---|
//! | as many | pairs |
//! | one evaluator more | the innermost has no Python frame: not yet, or no more |
//! | several evaluators more | pairs from the inside: the others run chains of their own |
//! | one segment more, opcodes are functions | pairs from the outside: the innermost evaluator has not called an opcode yet, or no more |
//! | more segments, native walk cut | pairs from the inside; the other segments stand outside of all native frames |
//! | more evaluators, Python walk cut or other interpreters or greenlets in the process | pairs from the inside; the other evaluators stay |
//! | anything else | no pairs |
//!
//! Guaranteed: each Python frame of a merged stack stands in it once, in the order of the walk, and so does each native frame; a stack
//! that cannot be merged has its native frames only.

use std::cmp::Ordering;
use std::ops::Range;

use super::version::Family;

/// What a native frame is. For callers, the address of the call counts: one before the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeFrame {
    /// Not of the interpreter's loop.
    Other,
    /// In the evaluator; where opcodes are functions, in one of these. It stands for a segment.
    Evaluator,
    /// Where opcodes are functions: in the function that calls the first of them, which belongs to the frame of an opcode inside of it. The function
    /// may as well be inlined into others.
    Entry,
}

/// One stack as both walks found it.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// How the frames of this interpreter are linked.
    pub family: Family,
    /// The native frames, the innermost first.
    pub native: &'a [NativeFrame],
    /// Whether opcodes are functions.
    pub has_opcode_functions: bool,
    /// The native walk came to its root.
    pub native_is_whole: bool,
    /// The frames of the Python walk, the innermost first.
    pub python: &'a [PythonFrame],
    /// The Python walk came to its root.
    pub python_is_whole: bool,
    /// The walk saw that the innermost evaluator had not begun, and went on from the next one.
    pub half_linked: bool,
    /// Other chains of frames may lie outside of the walked one: the process has several interpreters, one of which called this one, or
    /// it switches stacks by itself (greenlets).
    pub other_interpreters: bool,
}

/// A frame of the Python walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonFrame {
    /// It is the outermost one of its segment. To 3.10 each frame is.
    pub outermost: bool,
    /// It stands for a segment without frames.
    pub is_empty: bool,
}

/// A place in the merged stack, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A native frame, by its position.
    Native(usize),
    /// A Python frame, by its position.
    Python(usize),
    /// A native frame of the evaluator, or of its entry, by its position: the Python frames before it stand for it.
    Evaluator(usize),
}

/// What became of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Each evaluator has its segment.
    Paired,
    /// Each but the innermost, which has not begun or is over.
    HalfLinked,
    /// One of the walks was cut; what it found is paired from the inside.
    Cut,
    /// Evaluators outside of the walked interpreter have no segment.
    OtherInterpreter,
    /// Evaluators and segments do not fit; the Python frames are left out.
    Failed,
}

/// A merged stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The innermost first.
    pub positions: Vec<Position>,
    /// How it came about.
    pub outcome: Outcome,
}

/// Where the pairs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pairs {
    /// The innermost evaluators that have no segment.
    skipped: usize,
    /// The innermost segment has no evaluator.
    has_unpaired_segment: bool,
}

/// Merges both walks of a stack.
#[must_use]
pub fn merge(stack: &Stack<'_>) -> Merged {
    let segments = segments(stack);
    let evaluators = stack.native.iter().filter(|frame| **frame == NativeFrame::Evaluator).count();
    let Some((pairs, outcome)) = decide(stack, evaluators, segments.len()) else {
        let positions = (0..stack.native.len()).map(Position::Native).collect();
        return Merged { positions, outcome: Outcome::Failed };
    };
    let mut positions = Vec::with_capacity(stack.native.len() + stack.python.len());
    let frames = |segment: Range<usize>| {
        segment
            .filter(|frame| stack.python.get(*frame).is_some_and(|frame| !frame.is_empty))
            .map(Position::Python)
    };
    let mut waiting = segments.into_iter();
    // It belongs to the entry that has called no opcode. Where that is inlined, nothing tells which frame it is.
    let own_entry = stack
        .native
        .iter()
        .position(|frame| *frame != NativeFrame::Other)
        .filter(|at| pairs.has_unpaired_segment && stack.native.get(*at) == Some(&NativeFrame::Entry));
    if pairs.has_unpaired_segment && own_entry.is_none() {
        positions.extend(waiting.next().into_iter().flat_map(&frames));
    }
    let mut left = pairs.skipped;
    let mut callee_has_frames = false;
    for (native, frame) in stack.native.iter().enumerate() {
        let is_evaluator = *frame == NativeFrame::Evaluator;
        let segment = match left {
            0 if is_evaluator || own_entry == Some(native) => waiting.next(),
            _ => None,
        };
        left -= usize::from(is_evaluator && left > 0);
        let before = positions.len();
        positions.extend(segment.into_iter().flat_map(&frames));
        let has_frames = positions.len() > before;
        let is_replaced = has_frames || (callee_has_frames && *frame == NativeFrame::Entry);
        positions.push(if is_replaced { Position::Evaluator(native) } else { Position::Native(native) });
        callee_has_frames = has_frames && is_evaluator;
    }
    positions.extend(waiting.flat_map(&frames));
    Merged { positions, outcome }
}

/// The segments, the innermost first.
fn segments(stack: &Stack<'_>) -> Vec<Range<usize>> {
    let mut segments = Vec::new();
    let mut start = 0;
    for (position, frame) in stack.python.iter().enumerate() {
        if frame.outermost || stack.family == Family::HeapFrames {
            segments.push(start..position + 1);
            start = position + 1;
        }
    }
    // The walk ended within a segment.
    if start < stack.python.len() {
        segments.push(start..stack.python.len());
    }
    segments
}

/// Where the pairs begin, and what becomes of the stack. `None` if evaluators and segments do not fit.
fn decide(stack: &Stack<'_>, evaluators: usize, segments: usize) -> Option<(Pairs, Outcome)> {
    let is_open =
        stack.python.last().is_some_and(|last| !last.outermost) && stack.family != Family::HeapFrames;
    let python_is_whole = stack.python_is_whole && !is_open;
    let skipped = usize::from(stack.half_linked);
    let pairs = evaluators.checked_sub(skipped)?;
    let from = |skipped| Pairs { skipped, has_unpaired_segment: false };
    match pairs.cmp(&segments) {
        // No more than one evaluator is about to call its first opcode, or to end.
        Ordering::Less if stack.has_opcode_functions && stack.native_is_whole && pairs + 1 == segments => {
            Some((Pairs { skipped, has_unpaired_segment: true }, Outcome::Paired))
        }
        Ordering::Less if stack.native_is_whole => None,
        Ordering::Less => Some((from(skipped), Outcome::Cut)),
        _ if !python_is_whole => Some((from(skipped), Outcome::Cut)),
        Ordering::Equal if stack.half_linked => Some((from(skipped), Outcome::HalfLinked)),
        Ordering::Equal => Some((from(skipped), Outcome::Paired)),
        // No more than one evaluator is about to begin or to end.
        Ordering::Greater if stack.other_interpreters || evaluators > segments + 1 => {
            Some((from(skipped), Outcome::OtherInterpreter))
        }
        Ordering::Greater => Some((from(1), Outcome::HalfLinked)),
    }
}

#[cfg(test)]
mod tests;
