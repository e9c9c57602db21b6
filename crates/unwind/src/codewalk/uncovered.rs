//! The code that no unwind information describes.

use std::cell::RefCell;
use std::ops::Range;

use hashbrown::HashMap;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;

use crate::image::Image;
use crate::layer::Layer;

/// Longer functions with unwind information are assumed to return.
const MAX_DESCRIBED: u64 = 1 << 12;

/// A file and the ranges of its code without unwind information.
pub(super) struct UncoveredCode<'a> {
    pub image: &'a Image<'a>,
    /// Sorted by address.
    pub gaps: Vec<Range<u64>>,
    /// The code with unwind information.
    covered: &'a Layer,
    /// Functions with unwind information -> whether they may return.
    described: RefCell<HashMap<u64, bool>>,
}

impl<'a> UncoveredCode<'a> {
    pub(super) fn new(image: &'a Image<'a>, covered: &'a Layer, gaps: Vec<Range<u64>>) -> Self {
        Self { image, gaps, covered, described: RefCell::default() }
    }

    /// Whether a function with unwind information certainly does not return: no instruction of it returns or leaves the
    /// function. `exit` and `abort` of a static program are such functions.
    pub(super) fn never_returns(&self, start: u64) -> bool {
        if let Some(may_return) = self.described.borrow().get(&start) {
            return !may_return;
        }
        let may_return = self.may_return(start).unwrap_or(true);
        self.described.borrow_mut().insert(start, may_return);
        !may_return
    }

    fn may_return(&self, start: u64) -> Option<bool> {
        let spans = &self.covered.spans;
        let span =
            spans.get(spans.partition_point(|span| span.start < start)).filter(|s| s.start == start)?;
        let range = span.start..span.end;
        let size =
            usize::try_from(range.end - range.start).ok().filter(|size| *size as u64 <= MAX_DESCRIBED)?;
        let code = self.image.bytes_at(start)?.get(..size)?;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        Some(decoder.iter().any(|instruction| match instruction.flow_control() {
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::XbeginXabortXend => true,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                !range.contains(&instruction.near_branch_target())
            }
            _ => instruction.is_invalid(),
        }))
    }
}

impl UncoveredCode<'_> {
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.gaps.partition_point(|gap| gap.start <= address);
        after > 0 && address < self.gaps[after - 1].end
    }
}
