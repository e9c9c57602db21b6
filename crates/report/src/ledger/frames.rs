//! Frames by what is known of their functions. Each frame that is shown is counted once.

use recording::{Frame, FrameId, ModuleKind, SymbolizedRecording};

use crate::figures::{add, percent, sum};
use crate::stack_lines::StackLine;

/// Frames weighted by samples: those with a name, and those without by what they lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameCounts {
    /// Frames with a function name.
    pub named: u64,
    /// Frames without a name whose function's start is known.
    pub by_start: u64,
    /// Frames in ELF files, of neither of which is known.
    pub no_start: u64,
    /// Nameless frames in other files, and in files that could not be read.
    pub in_other_file: u64,
    /// Nameless frames in the kernel.
    pub in_kernel: u64,
    /// Nameless frames in code that programs made at run time.
    pub in_jit: u64,
    /// Nameless frames in interpreted code.
    pub interpreted: u64,
    /// Frames at addresses that no known mapping has.
    pub unmapped: u64,
}

impl FrameCounts {
    /// The frames of one stack as it is shown.
    pub(super) fn of(lines: &[StackLine<'_>], symbolized: &SymbolizedRecording) -> Self {
        let mut counts = Self::default();
        for line in lines {
            let StackLine::Frame(frame) = line else { continue };
            *counts.place(symbolized, *frame) += 1;
        }
        counts
    }

    fn place(
        &mut self,
        SymbolizedRecording { recording, names, .. }: &SymbolizedRecording,
        frame: FrameId,
    ) -> &mut u64 {
        if names.has(frame) {
            return &mut self.named;
        }
        if names.start(frame).is_some() {
            return &mut self.by_start;
        }
        match recording.frame(frame) {
            Some(Frame::Native { mapping, .. }) => match recording.mapping(*mapping) {
                Some((_, module)) if module.kind != ModuleKind::NotElf => &mut self.no_start,
                _ => &mut self.in_other_file,
            },
            Some(Frame::Kernel { .. }) => &mut self.in_kernel,
            Some(Frame::Jit { .. }) => &mut self.in_jit,
            Some(Frame::Interpreted { .. }) => &mut self.interpreted,
            Some(Frame::Unknown { .. }) | None => &mut self.unmapped,
        }
    }

    /// Adds the frames of a stack, as many times as its samples or its time say.
    pub(super) fn add(&mut self, mut of_stack: Self, weight: u64) {
        for (count, more) in self.all_mut().into_iter().zip(of_stack.all_mut()) {
            add(count, more.saturating_mul(weight));
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 8] {
        let Self { named, by_start, no_start, in_other_file, in_kernel, in_jit, interpreted, unmapped } =
            self;
        [named, by_start, no_start, in_other_file, in_kernel, in_jit, interpreted, unmapped]
    }

    /// All frames that are shown.
    #[must_use]
    pub fn shown(mut self) -> u64 {
        sum(self.all_mut().map(|count| *count))
    }

    /// Frames with a name in percent of all; `None` if there are no frames.
    #[must_use]
    pub fn named_pct(self) -> Option<f64> {
        percent(self.named, self.shown())
    }

    /// Frames whose function is known by its start only, in percent of all; `None` if there are no frames.
    #[must_use]
    pub fn by_start_pct(self) -> Option<f64> {
        percent(self.by_start, self.shown())
    }

    /// The frames that have neither name nor start, by cause.
    #[must_use]
    pub fn nameless(self) -> [(&'static str, u64); 6] {
        [
            ("no_function_start", self.no_start),
            ("nameless.other_file", self.in_other_file),
            ("nameless.kernel", self.in_kernel),
            ("nameless.jit", self.in_jit),
            ("nameless.interpreted", self.interpreted),
            ("nameless.unmapped", self.unmapped),
        ]
    }
}
