//! Walks over the copy of a stack.

use unwind::full::Frame;

use super::code::ProcessCode;
use super::sample::StackSample;
use super::walk_end::{NoCaller, WalkEnd};

/// Longer walks are cut.
const MAX_FRAMES: usize = 1024;
/// `abi` of 64-bit programs.
const ABI_64: u64 = 2;

/// A walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The interrupted instruction, then the return addresses, the innermost first.
    pub addresses: Vec<u64>,
    /// How it ended.
    pub end: WalkEnd,
}

impl Walk {
    /// By the chain of frame pointers. For code that keeps one in every function.
    #[must_use]
    pub fn by_frame_pointers(sample: &StackSample) -> Self {
        walk(sample, |frame| frame.by_frame_pointer(&|address| sample.word(address)).map_err(NoCaller::from))
    }

    /// By the frame information of the files that are mapped, and frame pointers where no file has any.
    #[must_use]
    pub fn by_unwind_rules(sample: &StackSample, code: &ProcessCode) -> Self {
        walk(sample, |frame| code.step(frame, &|address| sample.word(address)))
    }
}

fn walk(sample: &StackSample, mut step: impl FnMut(&Frame) -> Result<Frame, NoCaller>) -> Walk {
    let mut walk = Walk { addresses: vec![sample.ip], end: WalkEnd::Limit };
    if sample.abi != ABI_64 {
        walk.end = WalkEnd::NoRegisters;
        return walk;
    }
    let mut frame = Frame::of_sample(sample.registers.mask, sample.registers.values.iter().copied());
    while walk.addresses.len() < MAX_FRAMES {
        match step(&frame) {
            Ok(caller) => frame = caller,
            Err(NoCaller { end, is_no_frame }) => {
                walk.end = end;
                if is_no_frame && walk.addresses.len() > 1 {
                    walk.addresses.pop();
                }
                break;
            }
        }
        walk.addresses.push(frame.pc);
    }
    walk
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::stack_reader::registers::{UserRegisters, x86_64};

    /// A stack with frame records at these offsets, each with the address of the next record and a return address.
    fn sample(records: &[(usize, u64, u64)], bp: u64) -> StackSample {
        let mut stack = vec![0; 256];
        for (at, next, pc) in records {
            stack[*at..*at + 8].copy_from_slice(&next.to_ne_bytes());
            stack[*at + 8..*at + 16].copy_from_slice(&pc.to_ne_bytes());
        }
        let mask = 1 << x86_64::BP | 1 << x86_64::SP | 1 << x86_64::IP;
        let registers = UserRegisters { mask, values: vec![bp, 0x1000, 0x40] };
        StackSample { ip: 0x40, abi: 2, registers, stack_addr: 0x1000, stack, ..StackSample::default() }
    }

    #[test]
    fn frame_pointers_lead_to_zero_or_out_of_the_copy() {
        let whole = Walk::by_frame_pointers(&sample(&[(16, 0x1040, 0x50), (64, 0, 0x60)], 0x1010));
        assert_eq!(whole, Walk { addresses: vec![0x40, 0x50, 0x60], end: WalkEnd::ZeroFrame });
        let deep = Walk::by_frame_pointers(&sample(&[(16, 0x2000, 0x50)], 0x1010));
        assert_eq!(deep, Walk { addresses: vec![0x40, 0x50], end: WalkEnd::EndOfCopy });
        let circle = Walk::by_frame_pointers(&sample(&[(16, 0x1010, 0x50)], 0x1010));
        assert_eq!((circle.addresses.len(), circle.end), (2, WalkEnd::Broken));
        let other = Walk::by_frame_pointers(&StackSample { abi: 1, ..sample(&[], 0) });
        assert_eq!(other, Walk { addresses: vec![0x40], end: WalkEnd::NoRegisters });
        assert_eq!(Walk::by_frame_pointers(&sample(&[], 0x1001)).end, WalkEnd::Broken);
    }
}
