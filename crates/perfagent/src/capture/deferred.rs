//! Walks in user space of stacks that crossed as they are, because the kernel side had no table for them yet, or came
//! to a rule that it cannot evaluate.
//!
//! Each step is made by the frame sections of the file, with all registers, where they cover the code; they are there
//! before the tables are. Else by the rules of `bpf/step.h`, for which a table may have to be waited for. The ends of a
//! walk are those of the kernel side. There is no memo, and memory is what was copied.

use std::time::{Duration, Instant};

use kernel::{Frame, Kernel, RawStack, WalkEnd};
use process::Image;
use profile::Avma;
use unwind::{StepError, full};

use super::tables::{Tables, Unwinding};
use super::unwinders::Unwinders;

/// `MAX_USER_FRAMES` of `bpf/abi.h`.
const MAX_FRAMES: usize = 512;
/// A table that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of stacks that may wait.
const MAX_BYTES: usize = 32 << 20;

/// A stack that waits for tables.
pub(super) struct Deferred {
    pub(super) raw: RawStack,
    pub(super) since: Instant,
}

/// Stacks that wait for tables.
#[derive(Default)]
pub(super) struct Waiting {
    stacks: Vec<Deferred>,
    bytes: usize,
}

/// What came of a walk.
pub(super) struct Walked {
    /// Leaf first.
    pub(super) frames: Vec<Frame>,
    pub(super) end: WalkEnd,
}

impl Waiting {
    /// Keeps a stack. Too much of them: the oldest are given back, to be recorded as far as they go.
    pub(super) fn push(&mut self, raw: RawStack) -> Option<Deferred> {
        self.bytes += raw.len();
        self.stacks.push(Deferred { raw, since: Instant::now() });
        if self.bytes <= MAX_BYTES {
            return None;
        }
        let oldest = self.stacks.remove(0);
        self.bytes -= oldest.raw.len();
        Some(oldest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// All of them; those that still wait are put back by [`Self::put_back`].
    pub(super) fn take(&mut self) -> Vec<Deferred> {
        self.bytes = 0;
        std::mem::take(&mut self.stacks)
    }

    pub(super) fn put_back(&mut self, deferred: Deferred) {
        self.bytes += deferred.raw.len();
        self.stacks.push(deferred);
    }
}

impl Deferred {
    /// Mappings of its process may still be on their way.
    pub(super) fn is_fresh(&self) -> bool {
        self.since.elapsed() < Duration::from_millis(200)
    }

    pub(super) fn is_patient(&self) -> bool {
        self.since.elapsed() < PATIENCE
    }
}

/// Walks a stack. None: a table that it needs is still being made, and `wait` is wanted.
pub(super) fn walk(
    raw: &RawStack,
    image: &Image,
    unwinders: &mut Unwinders,
    tables: &mut Tables,
    kernel: &Kernel,
    wait: bool,
) -> Option<Walked> {
    let memory = |address: u64| raw.word(address);
    let mut frames = Vec::new();
    let mut now = full::Frame::leaf(&raw.registers, raw.pc);
    let mut guess = None;
    let end = loop {
        if frames.len() == MAX_FRAMES {
            break WalkEnd::FrameLimit;
        }
        let address = Avma(now.lookup_address());
        let Some(region) = image.find(address) else {
            if frames.is_empty() {
                frames.push(Frame { pc: now.pc, exact: true, by_frame_pointer: false });
            }
            break guess.unwrap_or(WalkEnd::NoMapping);
        };
        // Also where it is not needed here: the programs in the kernel want the table for what comes next.
        let found = tables.unwinding_at(image.pid, region, address, kernel);
        let by_all_registers =
            if tables.are_disabled() { None } else { unwinders.step(region, &now, &memory) };
        if by_all_registers.is_none() && matches!(found, Unwinding::NotReady) && wait {
            return None;
        }
        frames.push(Frame { pc: now.pc, exact: now.exact, by_frame_pointer: false });
        let by_rule = match (by_all_registers, &found) {
            (None, Unwinding::NotReady) => break WalkEnd::TableNotReady,
            (None, Unwinding::Rule(rule)) => Some(now.apply(rule, &memory)),
            (next, _) => next,
        };
        // A rule that hangs on the stack pointer, behind a frame record that does not tell it.
        let by_rule =
            by_rule.filter(|next| !(now.sp().is_none() && matches!(next, Err(StepError::UnsupportedRule))));
        let next = match by_rule {
            Some(next) => {
                guess = None;
                next
            }
            None => {
                let for_want_of_a_row = match found {
                    Unwinding::FramePointer { for_want_of_a_row } => for_want_of_a_row,
                    _ => matches!(guess, Some(WalkEnd::NoRow)),
                };
                let broken = if for_want_of_a_row { WalkEnd::NoRow } else { WalkEnd::FpChain };
                guess = Some(broken);
                if let Some(frame) = frames.last_mut() {
                    frame.by_frame_pointer = true;
                }
                match by_frame_pointer(&now, memory) {
                    Ok(next) => Ok(next),
                    Err(ByFramePointer::Root) if for_want_of_a_row => break broken,
                    Err(ByFramePointer::Root) => break WalkEnd::Root,
                    Err(ByFramePointer::Broken) => break broken,
                    Err(ByFramePointer::Fault) if for_want_of_a_row => break broken,
                    Err(ByFramePointer::Fault) => break WalkEnd::Fault,
                }
            }
        };
        match next {
            Ok(next) => now = next,
            Err(StepError::Root) => break WalkEnd::Root,
            Err(StepError::Fault(_)) => break WalkEnd::Fault,
            Err(StepError::NotAbove(_)) => break WalkEnd::FpChain,
            Err(_) => break WalkEnd::UnsupportedRule,
        }
    };
    // A stack longer than what crosses is readable; what was missing is what the kernel side missed.
    let end = if end == WalkEnd::Fault && raw.is_cut() { raw.stack.end } else { end };
    Some(Walked { frames, end })
}

enum ByFramePointer {
    Root,
    Broken,
    Fault,
}

/// What a function without rules has done to the other registers is not known.
fn by_frame_pointer(
    now: &full::Frame,
    memory: impl Fn(u64) -> Option<u64>,
) -> Result<full::Frame, ByFramePointer> {
    let Some(fp) = now.fp() else { return Err(ByFramePointer::Broken) };
    if fp == 0 {
        return Err(ByFramePointer::Root);
    }
    if now.sp().is_some_and(|sp| fp < sp) || fp % 8 != 0 {
        return Err(ByFramePointer::Broken);
    }
    let saved = memory(fp).ok_or(ByFramePointer::Fault)?;
    let pc = memory(fp.wrapping_add(8)).ok_or(ByFramePointer::Fault)?;
    if pc == 0 { Err(ByFramePointer::Root) } else { Ok(full::Frame::caller_by_record(fp, saved, pc)) }
}
