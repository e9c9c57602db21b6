//! Walks in user space: of stacks that were sent unwalked because the kernel had no table yet, or because the walk there met a rule
//! that it does not evaluate.
//!
//! Where the frame sections of a file cover the code, they make the step, with all registers; they can be used before the table is
//! compiled. Elsewhere the rules of `bpf/step.h` make it, and a table may have to be waited for. A walk ends with the same causes as in
//! the kernel. There is no memo, and the only memory is the copy of the stack.

use std::cell::Cell;

use kernel::{Frame, Kernel, RawStack, WalkEnd};
use process::Image;
use profile::Avma;
use unwind::abi::{ENTRY, START, cfa};
use unwind::{Rule, StepError, full};

use super::table_store::{TableStore, UnwindMethod};
use super::unwinders::{FullStep, Unwinders};

/// `MAX_USER_FRAMES` of `bpf/abi/frame.h`.
const MAX_FRAMES: usize = 512;

/// What is not below is the page of legacy system calls, `[vsyscall]`: see `bpf/vsyscall.h`.
const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000;
/// The return address is at the stack pointer, and nothing else is on the stack.
const WITHOUT_FRAME: Rule = Rule { cfa: cfa::SP, cfa_off: 8, ra_off: -8, ..Rule::NONE };

/// The result of a walk.
pub(crate) struct Walked {
    /// Leaf first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: WalkEnd,
    /// It needed memory that the copy does not hold and that may be readable, as the stack of code that was interrupted by a signal
    /// whose handler has a stack of its own.
    pub(crate) left_the_copy: bool,
    /// The address in no mapping at which it ended.
    pub(crate) nowhere: Option<u64>,
}

/// Walks a stack. `None`: `wait` is set, and a table that it needs is still being compiled, or frame sections are still being read.
pub(crate) fn walk(
    raw: &RawStack,
    image: &Image,
    unwinders: &mut Unwinders,
    tables: &mut TableStore,
    kernel: &Kernel,
    wait: bool,
) -> Option<Walked> {
    let left_the_copy = Cell::new(false);
    let memory = |address: u64| {
        raw.word(address).or_else(|| {
            left_the_copy.set(!raw.was_tried(address));
            None
        })
    };
    let mut frames = Vec::new();
    let mut now = full::Frame::leaf(&raw.registers, raw.pc);
    let (mut guess, mut nowhere) = (None, None);
    if cfg!(target_arch = "x86_64")
        && now.pc >= VSYSCALL_PAGE
        && let Ok(caller) = now.apply(&WITHOUT_FRAME, &memory)
    {
        frames.push(Frame { pc: now.pc, exact: true, by_frame_pointer: false });
        now = caller;
    }
    let end = loop {
        if frames.len() == MAX_FRAMES {
            break WalkEnd::FrameLimit;
        }
        let address = Avma(now.lookup_address());
        let Some(region) = image.find(address) else {
            if frames.is_empty() {
                frames.push(Frame { pc: now.pc, exact: true, by_frame_pointer: false });
            }
            nowhere = Some(address.0);
            break guess.unwrap_or(WalkEnd::NoMapping);
        };
        // Ask for the table even if it is not needed here: the next samples are walked in the kernel.
        let found = tables.unwinding_at(region, address, kernel);
        if !now.exact
            && is_start_without_call(&found, &frames, |pc| {
                image.find(Avma(pc)).is_some_and(|other| other.start == region.start)
            })
        {
            break guess.filter(|guess| *guess == WalkEnd::NoRow).unwrap_or(WalkEnd::Root);
        }
        // Only the table says whether a call can end before the first byte of a function.
        if !now.exact && matches!(found, UnwindMethod::NotReady) && unwinders.begins_at(region, now.pc) {
            if wait {
                return None;
            }
            break WalkEnd::TableNotReady;
        }
        let by_all_registers =
            if tables.are_disabled() { FullStep::NoRow } else { unwinders.step(region, &now, &memory) };
        let by_all_registers = match by_all_registers {
            FullStep::Taken(next) => Some(next),
            FullStep::NotReady if wait => return None,
            FullStep::NoRow if wait && matches!(found, UnwindMethod::NotReady) => return None,
            FullStep::NoRow | FullStep::NotReady => None,
        };
        frames.push(Frame { pc: now.pc, exact: now.exact, by_frame_pointer: false });
        let by_rule = match (by_all_registers, &found) {
            (None, UnwindMethod::NotReady) => break WalkEnd::TableNotReady,
            (None, UnwindMethod::Rule(rule)) => Some(now.apply(rule, &memory)),
            (next, _) => next,
        };
        let by_fp_rule = !raw.is_cut()
            && matches!(&found, UnwindMethod::Rule(rule) if rule.cfa == unwind::abi::cfa::FP)
            && now.fp().zip(now.sp()).is_some_and(|(fp, sp)| fp < sp || raw.word(fp).is_none());
        // A frame record does not tell the stack pointer, so a rule that needs it cannot be used.
        let by_rule =
            by_rule.filter(|next| !(now.sp().is_none() && matches!(next, Err(StepError::UnsupportedRule))));
        let next = match by_rule {
            Some(next) => {
                guess = None;
                next
            }
            None => {
                let for_want_of_a_row = match found {
                    UnwindMethod::FramePointer { for_want_of_a_row } => for_want_of_a_row,
                    _ => matches!(guess, Some(WalkEnd::NoRow)),
                };
                let broken = if for_want_of_a_row { WalkEnd::NoRow } else { WalkEnd::FpChain };
                guess = Some(broken);
                if let Some(frame) = frames.last_mut() {
                    frame.by_frame_pointer = true;
                }
                match by_frame_pointer(&now, memory) {
                    Ok(next) => Ok(next),
                    Err(ByFramePointer::Zero) if for_want_of_a_row => break broken,
                    Err(ByFramePointer::Zero) => break WalkEnd::ZeroFrame,
                    Err(ByFramePointer::Broken) => break broken,
                    Err(ByFramePointer::Fault) if for_want_of_a_row => break broken,
                    Err(ByFramePointer::Fault) => break WalkEnd::Fault,
                }
            }
        };
        match next {
            Ok(next) => now = next,
            Err(StepError::Root) => break WalkEnd::Root,
            Err(StepError::ZeroFrame) => match end_at_zero(&found) {
                WalkEnd::TableNotReady if wait => return None,
                end => break end,
            },
            // The copy is of one stack.
            Err(StepError::Fault(_)) if by_fp_rule => break WalkEnd::StackSwitch,
            Err(StepError::Fault(_)) => break WalkEnd::Fault,
            Err(StepError::NotAbove(_)) => break WalkEnd::FpChain,
            Err(StepError::StackSwitch) => break WalkEnd::StackSwitch,
            Err(_) => break WalkEnd::UnsupportedRule,
        }
    };
    let nowhere = nowhere.filter(|_| end == WalkEnd::NoMapping);
    Some(Walked { frames, end, left_the_copy: end == WalkEnd::Fault && left_the_copy.get(), nowhere })
}

/// The marks of a rule about the start of functions.
fn marks_of(found: &UnwindMethod) -> u8 {
    if let UnwindMethod::Rule(rule) = found { rule.flags & (START | ENTRY) } else { 0 }
}

/// How a walk ends at a return address of 0: only the table says whether a stack can begin in the function.
fn end_at_zero(found: &UnwindMethod) -> WalkEnd {
    match found {
        UnwindMethod::NotReady => WalkEnd::TableNotReady,
        _ if marks_of(found) == ENTRY => WalkEnd::Root,
        _ => WalkEnd::ZeroFrame,
    }
}

/// Whether a return address is the first byte of a function, and no call that ends there led to the frame before.
fn is_start_without_call(found: &UnwindMethod, frames: &[Frame], is_in_region: impl Fn(u64) -> bool) -> bool {
    let marks = marks_of(found);
    let Some(before) = frames.last().filter(|_| marks & START != 0) else { return false };
    marks & ENTRY == 0 || !is_in_region(before.pc)
}

enum ByFramePointer {
    Zero,
    Broken,
    Fault,
}

/// The caller by frame pointer. The other registers of the caller stay unknown.
fn by_frame_pointer(
    now: &full::Frame,
    memory: impl Fn(u64) -> Option<u64>,
) -> Result<full::Frame, ByFramePointer> {
    let Some(fp) = now.fp() else { return Err(ByFramePointer::Broken) };
    if fp == 0 {
        return Err(ByFramePointer::Zero);
    }
    if now.sp().is_some_and(|sp| fp < sp) || fp % 8 != 0 {
        return Err(ByFramePointer::Broken);
    }
    let saved = memory(fp).ok_or(ByFramePointer::Fault)?;
    let pc = memory(fp.wrapping_add(8)).ok_or(ByFramePointer::Fault)?;
    if pc == 0 { Err(ByFramePointer::Zero) } else { Ok(full::Frame::caller_by_record(fp, saved, pc)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_table_nobody_knows_whether_a_stack_begins_in_a_function() {
        let rule = |flags| UnwindMethod::Rule(Rule { flags, ..WITHOUT_FRAME });
        let found = [
            UnwindMethod::NotReady,
            rule(ENTRY),
            rule(0),
            rule(START | ENTRY),
            UnwindMethod::FramePointer { for_want_of_a_row: false },
        ];
        let ends = found.map(|found| end_at_zero(&found));
        let zero = WalkEnd::ZeroFrame;
        assert_eq!(ends, [WalkEnd::TableNotReady, WalkEnd::Root, zero, zero, zero]);
    }
}
