//! The code that no unwind information describes.

use std::cell::RefCell;
use std::ops::Range;

use elf::constants::PT_DYNAMIC;
use hashbrown::HashMap;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;

use crate::image::Image;
use crate::layer::Layer;

/// Of longer functions with unwind information it is not known whether they return.
const MAX_DESCRIBED: u64 = 1 << 15;
/// Limit of functions that jump to each other instead of returning.
const MAX_JUMPS: usize = 8;

/// A file and the ranges of its code without unwind information.
pub(super) struct UncoveredCode<'a> {
    pub image: &'a Image<'a>,
    /// Sorted by address.
    pub gaps: Vec<Range<u64>>,
    /// The code with unwind information.
    covered: &'a Layer,
    /// No other file is loaded with it.
    is_static: bool,
    /// Functions with unwind information -> whether they return, if that is known.
    described: RefCell<HashMap<u64, Option<bool>>>,
}

impl<'a> UncoveredCode<'a> {
    pub(super) fn new(image: &'a Image<'a>, covered: &'a Layer, gaps: Vec<Range<u64>>) -> Self {
        let is_static = !image.layout.program_headers.iter().any(|header| header.kind == PT_DYNAMIC);
        Self { image, gaps, covered, is_static, described: RefCell::default() }
    }

    /// Whether a function with unwind information returns, if its instructions tell: one of them returns or jumps to a
    /// function that does, or none returns or leaves the function. `exit` and `abort` of a static program are functions
    /// that do not.
    pub(super) fn returns(&self, start: u64) -> Option<bool> {
        self.returns_within(start, MAX_JUMPS)
    }

    fn returns_within(&self, start: u64, jumps: usize) -> Option<bool> {
        if let Some(returns) = self.described.borrow().get(&start) {
            return *returns;
        }
        // Functions may jump to each other in a circle.
        self.described.borrow_mut().insert(start, None);
        let returns = self.returns_by_code(start, jumps);
        self.described.borrow_mut().insert(start, returns);
        returns
    }

    /// Whether a function is `jmp *ADDRESS(%rip)`. In a static program all these lead to string and memory functions of the C
    /// library.
    fn is_jump_stub(&self, start: u64) -> bool {
        let code = self.image.file_range_at(start).and_then(|range| self.image.data.get(range));
        code.is_some_and(|code| {
            let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
            code.strip_prefix(&[0xf2]).unwrap_or(code).starts_with(&[0xff, 0x25])
        })
    }

    fn returns_by_code(&self, start: u64, jumps: usize) -> Option<bool> {
        if self.is_static && self.is_jump_stub(start) {
            return Some(true);
        }
        let spans = &self.covered.spans;
        let span =
            spans.get(spans.partition_point(|span| span.start < start)).filter(|s| s.start == start)?;
        let range = span.start..span.end;
        let size =
            usize::try_from(range.end - range.start).ok().filter(|size| *size as u64 <= MAX_DESCRIBED)?;
        let code = self.image.bytes_at(start)?.get(..size)?;
        let mut may_leave = false;
        for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
            match instruction.flow_control() {
                FlowControl::Return => return Some(true),
                FlowControl::IndirectBranch | FlowControl::XbeginXabortXend => may_leave = true,
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    if !range.contains(&target) {
                        let returns =
                            jumps.checked_sub(1).and_then(|jumps| self.returns_within(target, jumps));
                        if returns == Some(true) {
                            return returns;
                        }
                        may_leave |= returns.is_none();
                    }
                }
                _ => may_leave |= instruction.is_invalid(),
            }
        }
        (!may_leave).then_some(false)
    }
}

impl UncoveredCode<'_> {
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.gaps.partition_point(|gap| gap.start <= address);
        after > 0 && address < self.gaps[after - 1].end
    }
}
