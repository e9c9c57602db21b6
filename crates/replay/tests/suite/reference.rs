//! The walk in Rust, written from the specification of causes and marks, over `unwind::apply`.

use replay::End;
use replay::Frame;
use replay::MAX_FRAMES;
use replay::Registers;
use replay::Stack;
use unwind::Rule;
use unwind::StepError;
use unwind::abi::SIGNAL;
use unwind::abi::cfa;

use crate::image::Area;

const PC_BITS: u64 = (1 << 57) - 1;
/// No frame is larger.
const MAX_DISTANCE: u64 = 0x7fff_fff0;

#[derive(Clone, Copy, PartialEq)]
enum Guess {
    /// The last caller was found by a rule.
    None,
    /// By frame pointer, because the table has no row.
    NoRow,
    /// By frame pointer, because there is no table.
    NoTable,
}

/// The mapping around an address.
pub fn area_at(areas: &[Area], address: u64) -> Option<&Area> {
    areas.iter().find(|area| (area.start..area.end).contains(&address))
}

/// The rule at an address, if it is in a mapping, has a table, and that has one.
pub fn rule_at(areas: &[Area], address: u64) -> Option<&Rule> {
    let area = area_at(areas, address)?;
    area.table.as_ref()?.lookup(address.wrapping_sub(area.bias))
}

/// All frames, leaf first, and how the walk ended.
pub fn walk(areas: &[Area], registers: &Registers, stack: &Stack) -> (Vec<Frame>, End) {
    let mut frames = Vec::new();
    let (mut pc, mut exact) = (registers.pc & PC_BITS, true);
    let (mut sp, mut fp) = (registers.by_number[7], registers.by_number[6]);
    let mut guess = Guess::None;
    loop {
        if frames.len() == MAX_FRAMES {
            return (frames, End::FrameLimit);
        }
        let innermost = frames.is_empty();
        let frame = Frame { pc, exact, by_fp: false, sp, fp };
        let address = if exact { pc } else { pc.wrapping_sub(1) };
        let Some(area) = area_at(areas, address) else {
            if innermost {
                frames.push(frame);
            }
            let end = match guess {
                Guess::None => End::NoMapping,
                Guess::NoRow => End::NoRow,
                Guess::NoTable => End::FpChain,
            };
            return (frames, end);
        };
        frames.push(frame);
        let Some(rule) = rule_at(areas, address) else {
            guess = if area.table.is_some() { Guess::NoRow } else { Guess::NoTable };
            let failed = |end| if guess == Guess::NoRow { End::NoRow } else { end };
            if fp == 0 {
                return (frames, failed(End::ZeroFrame));
            }
            if fp < sp || !fp.is_multiple_of(8) || fp - sp > MAX_DISTANCE {
                return (frames, failed(End::FpChain));
            }
            let (Some(saved), Some(ra)) = (stack.word(fp), stack.word(fp.wrapping_add(8))) else {
                return (frames, failed(End::Fault));
            };
            frames.last_mut().unwrap().by_fp = true;
            if ra == 0 {
                return (frames, failed(End::ZeroFrame));
            }
            (pc, exact, sp, fp) = (ra & PC_BITS, false, fp.wrapping_add(16), saved);
            continue;
        };
        let register =
            |number: u8| registers.by_number.get(usize::from(number)).copied().filter(|_| innermost);
        let here = unwind::Registers { pc, sp, fp, exact };
        let found_from_memory = matches!(rule.cfa, cfa::SP_DEREF | cfa::FP_DEREF);
        let by_another_register = matches!(rule.cfa, cfa::FP | cfa::REG);
        let next = unwind::apply(rule, &here, register, &|address| stack.word(address));
        // A CFA by the stack pointer that is not above the frame ends the walk before anything is read through it, and so
        // does a frame that is its own caller. With the return address in a register nothing need be left of the frame.
        let in_register = rule.ra == unwind::abi::ra::REG;
        let backwards = || {
            let mut bare = *rule;
            (bare.ra, bare.fp) = (unwind::abi::ra::SP, unwind::abi::fp::SAME);
            let caller = unwind::apply(&bare, &here, register, &|_| Some(1));
            let is_above = |caller_sp| {
                caller_sp > sp || caller_sp == sp && in_register || caller_sp < sp && by_another_register
            };
            !found_from_memory && caller.is_ok_and(|caller| !is_above(caller.sp))
        };
        match next {
            Err(StepError::UnsupportedRule) => return (frames, End::UnsupportedRule),
            _ if rule.ra != unwind::abi::ra::UNDEFINED && backwards() => return (frames, End::FpChain),
            Err(StepError::Root) => return (frames, End::Root),
            Err(StepError::ZeroFrame) => return (frames, End::ZeroFrame),
            Err(_) => return (frames, End::Fault),
            Ok(next) => {
                (pc, exact, sp, fp) = (next.pc & PC_BITS, rule.flags & SIGNAL != 0, next.sp, next.fp);
                guess = Guess::None;
            }
        }
    }
}
