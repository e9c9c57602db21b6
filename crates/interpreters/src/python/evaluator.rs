//! The code of the evaluator, the function `_PyEval_EvalFrameDefault` in which each native frame that runs Python code is.
//!
//! Compilers place rarely used code of a function apart. In stripped files no symbol tells where: it is any code that the function
//! jumps to and that does not begin as functions do.

use std::ops::Range;

use elf::Layout;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use profile::Svma;
use unwind::FunctionIndex;

use super::symbols::Place;

/// The function has 34 to 84 KB.
const MAX_SIZE: u64 = 4 << 20;

/// The code of the evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    /// The function itself, then its parts that lie apart. Disjoint.
    pub ranges: Vec<Range<Svma>>,
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
        let parts = index.map(|index| index.parts_of(file, whole.clone(), &|| {})).unwrap_or_default();
        let ranges = std::iter::once(whole.clone()).chain(parts);
        Some(Self {
            ranges: ranges.map(|range| Svma(range.start)..Svma(range.end)).collect(),
            before_dispatch: first_dispatch(code, whole.start).map(|at| Svma(whole.start)..at),
        })
    }

    /// Whether an address is in the function or in a part of it.
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
