//! The code of the evaluator, the function `_PyEval_EvalFrameDefault` in which each native frame that runs Python code is.
//!
//! Compilers place rarely used code of a function apart. In stripped files no symbol tells where: it is any code that the function
//! jumps to and that does not begin as functions do.

use std::ops::Range;

use elf::Layout;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use profile::Svma;
use unwind::FunctionIndex;

use super::merge::NativeFrame;
use super::opcodes::opcodes;
use super::symbols::Place;

/// The function has 34 to 84 KB.
const MAX_SIZE: u64 = 4 << 20;

/// The code of the evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    /// The code whose native frames stand for Python frames: the function itself, then its parts that lie apart; where opcodes are functions,
    /// these and their parts. Disjoint.
    pub ranges: Vec<Range<Svma>>,
    /// Where opcodes are functions, the function that calls the first one, then its parts that lie apart. Its callers may have copies of it.
    pub entry: Vec<Range<Svma>>,
    /// From the beginning of the function to its first indirect jump: until there the call has not begun to run Python code.
    pub before_dispatch: Option<Range<Svma>>,
}

impl Evaluator {
    /// `None` if the symbol names no code.
    pub(super) fn read(layout: &Layout, file: &[u8], function: Place) -> Option<Self> {
        let whole = function.address..function.address.checked_add(function.size)?;
        let code = layout.bytes_at(file, whole.start)?.get(..usize::try_from(function.size).ok()?)?;
        if code.is_empty() || function.size > MAX_SIZE {
            return None;
        }
        let index = FunctionIndex::read(file, &|| {}).ok();
        let parts = index.as_ref().map(|index| index.parts_of(file, whole.clone(), &|| {}));
        let function: Vec<Range<u64>> =
            std::iter::once(whole.clone()).chain(parts.unwrap_or_default()).collect();
        // Where opcodes are functions, the evaluator calls the first one; others jump to it.
        let dispatch = first_dispatch(code, whole.start);
        let index = index.filter(|_| dispatch.is_none());
        let of_opcodes = index.and_then(|index| opcodes(layout, file, &function, &index));
        let places = |ranges: Vec<Range<u64>>| -> Vec<Range<Svma>> {
            ranges.into_iter().map(|range| Svma(range.start)..Svma(range.end)).collect()
        };
        Some(match of_opcodes {
            Some(ranges) => Self { ranges: places(ranges), entry: places(function), before_dispatch: None },
            None => Self {
                ranges: places(function),
                entry: Vec::new(),
                before_dispatch: dispatch.map(|at| Svma(whole.start)..at),
            },
        })
    }

    /// Whether opcodes are functions that end in jumps to each other.
    #[must_use]
    pub fn has_opcode_functions(&self) -> bool {
        !self.entry.is_empty()
    }

    /// What a native frame at an address is.
    #[must_use]
    pub fn frame(&self, address: Svma) -> NativeFrame {
        // Those of opcodes are sorted, and some hundred.
        let is_opcode = || {
            let at = self.ranges.partition_point(|range| range.end <= address);
            self.ranges.get(at).is_some_and(|range| range.contains(&address))
        };
        if self.has_opcode_functions() {
            match self.entry.iter().any(|range| range.contains(&address)) {
                true => NativeFrame::Entry,
                false if is_opcode() => NativeFrame::Evaluator,
                false => NativeFrame::Other,
            }
        } else if self.contains(address) {
            NativeFrame::Evaluator
        } else {
            NativeFrame::Other
        }
    }

    /// Whether an address is in [`Self::ranges`].
    #[must_use]
    pub fn contains(&self, address: Svma) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// The first indirect jump.
fn first_dispatch(code: &[u8], start: u64) -> Option<Svma> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.flow_control() == FlowControl::IndirectBranch {
            return Some(Svma(instruction.ip()));
        }
    }
    None
}
