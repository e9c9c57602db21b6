//! Which lines a stack is shown as: its frames without those of our own tracing and of the scheduler, a line that tells why it is not
//! complete, and the stack of its waker.

use std::borrow::Cow;

use profile::{Label, LabelValue};
use recording::{FrameId, MissingStack, Names, Recording, Stack, State, WalkEnd};

use crate::scheduler_functions;
use crate::selection::{Entry, LockWaits, StackRef};

/// Beginnings of the names of kernel functions that lead from a tracepoint to our programs.
const OWN_FRAMES: [&str; 5] =
    ["bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"];
/// Our own frames are among this many from the leaf on.
const MAX_OWN_FRAMES: usize = 8;
/// Beginnings of the names of kernel functions that interrupts enter.
const INTERRUPT_ENTRIES: [&str; 3] = ["asm_sysvec_", "asm_common_interrupt", "asm_exc_nmi"];

/// A waker that has no number in the PID namespace of perf-agent.
pub(crate) const OUTSIDE_OF_NAMESPACE: &str = "[outside of this PID namespace]";

/// The line that separates a wait from the stack that ended it.
pub(crate) const WOKEN_BY: &str = "[woken by]";

/// A line of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StackLine<'a> {
    /// A place in code.
    Frame(FrameId),
    /// A fact about the stack, as `[kernel thread]`.
    Fact(Cow<'a, str>),
}

/// Makes the lines of stacks.
#[derive(Clone, Copy)]
pub(crate) struct StackLines<'a> {
    recording: &'a Recording,
    names: &'a Names,
    /// Kernel frames are shown. A few are recorded in any case.
    kernel_stacks: bool,
}

impl<'a> StackLines<'a> {
    pub(crate) fn new(recording: &'a Recording, names: &'a Names) -> Self {
        Self { recording, names, kernel_stacks: recording.settings.kernel_stacks }
    }

    /// The same with kernel frames in any case, for what happens in the kernel.
    pub(crate) fn with_kernel(self) -> Self {
        Self { kernel_stacks: true, ..self }
    }

    /// Replaces `lines` by those of a count, leaf first. Its waker stands beyond the leaf, the outermost frame farthest away: equal
    /// waits then share their frames from the root on, whatever ends them.
    pub(crate) fn fill(&self, entry: &Entry<'a>, lines: &mut Vec<StackLine<'a>>) {
        lines.clear();
        if let Some(waker) = &entry.waker {
            self.add_waker(waker, lines);
            lines.reverse();
            lines.push(fact(WOKEN_BY));
        }
        self.add_stack(&entry.at, lines);
    }

    fn add_stack(&self, of: &StackRef<'a>, lines: &mut Vec<StackLine<'a>>) {
        let (kernel, user) = of.stack.split();
        // Off-CPU, the kernel stack begins with the frames of the tracepoint that took it.
        let mut left_out = if of.state == State::Sampled { 0 } else { self.own_frames(kernel) };
        if of.state.off_cpu().is_some() {
            left_out += self.scheduler_frames(kernel.get(left_out..).unwrap_or_default());
        }
        if self.kernel_stacks {
            lines.extend(kernel.iter().skip(left_out).copied().map(StackLine::Frame));
        }
        lines.extend(user.iter().copied().map(StackLine::Frame));
        lines.extend(outermost(of.stack).map(fact));
    }

    /// Process, thread and stack of a waker; of an interrupt, the kernel frames that belong to it.
    fn add_waker(&self, waker: &StackRef<'a>, lines: &mut Vec<StackLine<'a>>) {
        let (tid, name) = waker.task.thread.as_ref().map_or((0, ""), |thread| (thread.tid, &thread.name));
        let (kernel, _) = waker.stack.split();
        if tid == 0 && waker.stack.end == WalkEnd::NoRegisters {
            lines.push(fact(OUTSIDE_OF_NAMESPACE));
            return;
        }
        if self.is_interrupt(waker) {
            let entered = self.interrupt_entry(kernel);
            lines.push(fact("[interrupt]"));
            if self.kernel_stacks {
                let of_interrupt = entered.map_or(kernel.len(), |entered| entered + 1);
                let frames = kernel.iter().take(of_interrupt).skip(self.own_frames(kernel));
                lines.extend(frames.copied().map(StackLine::Frame));
            }
            return;
        }
        let process = text(self.recording.labels(waker.task.labels), "comm").unwrap_or(name);
        lines.push(StackLine::Fact(format!("process {process}").into()));
        lines.push(StackLine::Fact(format!("thread {name}").into()));
        self.add_stack(waker, lines);
    }

    /// Whether a waker is an interrupt, which has nothing to do with the thread that it interrupted.
    pub(crate) fn is_interrupt(&self, waker: &StackRef<'a>) -> bool {
        let is_of_thread = waker.task.thread.as_ref().is_some_and(|thread| thread.tid != 0);
        let (kernel, _) = waker.stack.split();
        !is_of_thread || waker.state == State::WakerInSoftirq && self.interrupt_entry(kernel).is_some()
    }

    /// Whether waits ended because a thread let go of the lock. A time limit may be over while a thread is in a call on the same lock.
    pub(crate) fn is_let_go(&self, waits: &LockWaits<'a>) -> bool {
        waits.released && !waits.waker.as_ref().is_some_and(|waker| self.is_interrupt(waker))
    }

    /// Where an interrupt entered the kernel, among frames leaf first.
    fn interrupt_entry(&self, kernel: &[FrameId]) -> Option<usize> {
        kernel.iter().position(|frame| self.name_begins(*frame, &INTERRUPT_ENTRIES))
    }

    /// How many of these kernel frames, leaf first, belong to the tracing of this very event.
    pub(crate) fn own_frames(&self, kernel: &[FrameId]) -> usize {
        let is_own = |frame: &FrameId| self.name_begins(*frame, &OWN_FRAMES);
        kernel.iter().take(MAX_OWN_FRAMES).rposition(is_own).map_or(0, |last| last + 1)
    }

    /// How many of these kernel frames, leaf first, belong to the scheduler.
    fn scheduler_frames(&self, kernel: &[FrameId]) -> usize {
        let is_inside = |frame: &FrameId| {
            self.names.of(*frame).next().is_some_and(|line| scheduler_functions::contain(line.name))
        };
        kernel.iter().position(|frame| !is_inside(frame)).unwrap_or(kernel.len())
    }

    fn name_begins(&self, frame: FrameId, beginnings: &[&str]) -> bool {
        let mut lines = self.names.of(frame);
        lines.next().is_some_and(|line| beginnings.iter().any(|beginning| line.name.starts_with(beginning)))
    }
}

fn fact(text: &'static str) -> StackLine<'static> {
    StackLine::Fact(Cow::Borrowed(text))
}

/// The text of a label.
fn text<'a>(labels: &'a [Label], key: &str) -> Option<&'a str> {
    labels.iter().find(|label| label.key == key).and_then(|label| match &label.value {
        LabelValue::Str(text) => Some(text.as_str()),
        LabelValue::Num(_) => None,
    })
}

/// The outermost line of a stack that is missing or not complete.
pub(crate) fn outermost(stack: &Stack) -> Option<&'static str> {
    if let Some(missing) = stack.missing {
        return Some(match missing {
            MissingStack::AsleepBefore => "[asleep since before the capture]",
            MissingStack::NotRunYet => "[not run yet]",
            MissingStack::Gate => "[gate]",
        });
    }
    let (kernel, user) = stack.split();
    match stack.end {
        WalkEnd::Root => None,
        WalkEnd::NoMapping => Some("[truncated: unknown mapping]"),
        WalkEnd::NoRow => Some("[truncated: no unwind info]"),
        WalkEnd::UnsupportedRule => Some("[truncated: unsupported unwind rule]"),
        WalkEnd::FpChain => Some("[truncated: broken frame pointers]"),
        WalkEnd::Fault => Some("[truncated: unreadable stack]"),
        WalkEnd::FrameLimit => Some("[truncated: frame limit]"),
        WalkEnd::TableNotReady => Some("[truncated: unwind table not ready]"),
        WalkEnd::NoRegisters => Some("[truncated: no user registers]"),
        WalkEnd::StackSwitch => Some("[truncated: stack switch]"),
        WalkEnd::Code32Bit => Some("[truncated: 32-bit code]"),
        WalkEnd::ZeroFrame => Some("[truncated: frame pointer is zero]"),
        WalkEnd::NoUserStack => kernel.is_empty().then_some("[kernel thread]"),
        // The frames are those at which the memory of the old program was released.
        WalkEnd::Exiting if !user.is_empty() => Some("[in exec]"),
        WalkEnd::Exiting => kernel.is_empty().then_some("[exiting]"),
    }
}
