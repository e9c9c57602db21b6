//! The functions in Python of a stack: their places among the native frames, their names and their lines.

use std::collections::HashMap;
use std::sync::Arc;

use interpreters::python::merge::{self, NativeFrame, Outcome, Position};
use interpreters::python::{Interpreter, lines};
use kernel::{CodeMessage, InterpretedFrame, InterpretedWalk, Kernel, PythonEnd, StackMessage, WalkEnd};
use process::{Image, RegionKind};
use profile::Avma;
use recording::{Builder, CodeObject, CodeObjectId, Frame, FrameId};

use crate::processes::{ExecInstance, ProcessSnapshot, Processes};
use crate::python::{CodeStore, Pythons, SentCode};
use crate::{PythonFrames, Warning};

/// Bytes of names and lines of an interval. Functions beyond them have no names.
const MAX_BYTES: usize = 64 << 20;

/// What is known of programs in Python.
pub(super) struct PythonStacks {
    pub(super) pythons: Pythons,
    codes: CodeStore,
    /// The code objects of the present interval, by their address as they were sent.
    ids: HashMap<usize, (Arc<SentCode>, CodeObjectId)>,
    /// Bytes of these.
    bytes: usize,
    frames: PythonFrames,
    /// Distinct stacks that could not be merged.
    merge_failed: u64,
}

/// The user frames of a stack in their order, and the interpreter of its functions.
pub(super) struct Merged {
    pub(super) positions: Vec<Position>,
    interpreter: Arc<Interpreter>,
}

impl PythonStacks {
    pub(super) fn new(pythons: Pythons, frames: PythonFrames) -> Self {
        Self { pythons, codes: CodeStore::default(), ids: HashMap::new(), bytes: 0, frames, merge_failed: 0 }
    }

    /// Distinct stacks so far that could not be merged.
    pub(super) fn merge_failed(&self) -> u64 {
        self.merge_failed
    }

    /// What is wrong with interpreters, if their functions are to be shown.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = self.pythons.take_warnings();
        warnings.retain(|_| self.frames != PythonFrames::Off);
        warnings
    }

    /// Takes in a code object, before the first stack that goes through it.
    pub(super) fn add_code(&mut self, code: CodeMessage, snapshot: Option<ProcessSnapshot<'_>>) {
        if let Some(snapshot) = snapshot {
            self.codes.add(snapshot.instance, code);
        }
    }

    /// Waits a moment until it is known where the interpreters of these processes keep their frames: with the whole system as target nobody has
    /// looked at them yet.
    pub(super) fn find(
        &mut self,
        pids: &[u32],
        processes: &Processes,
        kernel: &mut Kernel,
    ) -> Result<(), kernel::Error> {
        if self.frames == PythonFrames::Off {
            return Ok(());
        }
        self.pythons.find_named(pids, processes, kernel)
    }

    /// Adds to the stacks of threads of one process that sleep the frames of their functions, from the memory of the process.
    pub(super) fn read_asleep(
        &mut self,
        pid: u32,
        stacks: &mut [StackMessage],
        snapshot: Option<ProcessSnapshot<'_>>,
    ) {
        let Some(snapshot) = snapshot.filter(|_| self.frames != PythonFrames::Off) else { return };
        // The numbers of its threads cost a file each.
        if !self.pythons.runs(pid) {
            return;
        }
        // The memory has the number that a thread has in its own namespace.
        let inner = |tid: u32| process::task::ns_pids(tid).ok()?.last().copied();
        let numbers: HashMap<u32, u32> =
            stacks.iter().filter_map(|stack| Some((stack.tid, inner(stack.tid)?))).collect();
        let Some(asleep) = self.pythons.read_asleep(pid, numbers.values().copied().collect()) else { return };
        for code in asleep.codes {
            self.codes.add(snapshot.instance, code);
        }
        for stack in stacks {
            let frames = numbers.get(&stack.tid).and_then(|inner| asleep.threads.get(inner));
            let Some((frames, is_whole)) = frames else { continue };
            let end = if *is_whole { PythonEnd::Root } else { PythonEnd::Open };
            stack.attached.interpreted = frames.clone();
            stack.attached.interpreted_walk = Some(InterpretedWalk { end, half_linked: false });
        }
    }

    /// A new interval begins.
    pub(super) fn begin_interval(&mut self) {
        self.ids.clear();
        self.bytes = 0;
    }

    /// The places of the functions. `None`: there are none, or their places are not known.
    pub(super) fn merge(
        &mut self,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) -> Option<Merged> {
        let attached = &message.attached;
        if attached.interpreted.is_empty() {
            return None;
        }
        let mut merged = snapshot.and_then(|snapshot| self.merged(message, snapshot.image));
        self.merge_failed += u64::from(merged.is_none());
        if let (Some(merged), Some(snapshot)) = (&mut merged, snapshot) {
            merged.positions.retain(|position| match position {
                Position::Python(at) => !attached
                    .interpreted
                    .get(*at)
                    .and_then(|frame| self.codes.get(snapshot.instance, frame.code, frame.stamp))
                    .is_some_and(|code| is_return_of_init(&code)),
                _ => true,
            });
        }
        merged
    }

    fn merged(&mut self, message: &StackMessage, image: &Image) -> Option<Merged> {
        let attached = &message.attached;
        let native: Vec<Option<(&Arc<Interpreter>, NativeFrame)>> =
            message.user.iter().map(|frame| self.native_frame(frame, image)).collect();
        let interpreter = native.iter().flatten().next().map(|(interpreter, _)| *interpreter);
        let interpreter = interpreter.or_else(|| self.of_image(image))?;
        let native: Vec<NativeFrame> =
            native.iter().map(|found| found.map_or(NativeFrame::Other, |(_, frame)| frame)).collect();
        let walk = attached.interpreted_walk;
        let python = |frame: &InterpretedFrame| merge::PythonFrame {
            outermost: frame.outermost,
            is_empty: frame.code == 0,
        };
        let merged = merge::merge(&merge::Stack {
            family: interpreter.layout.family,
            native: &native,
            has_opcode_functions: interpreter.evaluator.has_opcode_functions(),
            native_is_whole: message.end == WalkEnd::Root,
            python: &attached.interpreted.iter().map(python).collect::<Vec<_>>(),
            python_is_whole: walk.is_some_and(|walk| walk.end == PythonEnd::Root),
            half_linked: walk.is_some_and(|walk| walk.half_linked),
            other_interpreters: self.pythons.has_several_chains(message.pid),
        });
        if merged.outcome == Outcome::Failed {
            tracing::debug!(target: "perfagent", pid = message.pid, ?native, python = ?attached.interpreted, ?walk, "not merged");
            return None;
        }
        let looks_half_linked =
            merged.outcome == Outcome::HalfLinked && !walk.is_some_and(|walk| walk.half_linked);
        let interpreter = Arc::clone(interpreter);
        if looks_half_linked || merged.outcome == Outcome::OtherInterpreter {
            self.pythons.doubt(message.pid);
        }
        let mut positions = merged.positions;
        without_trampolines(&mut positions, |native| is_made_at_run_time(message, native, image));
        if self.frames != PythonFrames::All {
            positions.retain(|position| !matches!(position, Position::Evaluator(_)));
        }
        Some(Merged { positions, interpreter })
    }

    /// What a frame is to the interpreter whose loop it is in. `None`: it is in none.
    fn native_frame(&self, frame: &kernel::Frame, image: &Image) -> Option<(&Arc<Interpreter>, NativeFrame)> {
        let lookup = Avma(Frame::lookup(frame.pc, frame.exact));
        let region = image.find(lookup)?;
        let file = region.file()?;
        let interpreter = self.pythons.of_file(file)?;
        let svma = file.svma_of(region.offset_of(lookup))?;
        let found = interpreter.evaluator.frame(svma);
        (found != NativeFrame::Other).then_some((interpreter, found))
    }

    fn of_image(&self, image: &Image) -> Option<&Arc<Interpreter>> {
        image.regions().iter().find_map(|region| self.pythons.of_file(region.file()?))
    }

    /// A function as the recording has it. `None`: a limit of the recording is reached.
    pub(super) fn frame(
        &mut self,
        builder: &mut Builder,
        frame: &InterpretedFrame,
        merged: &Merged,
        instance: &Arc<ExecInstance>,
    ) -> Option<FrameId> {
        let version = merged.interpreter.version;
        let code = match self.codes.get(instance, frame.code, frame.stamp) {
            Some(sent) => self.code_object(builder, &sent, &merged.interpreter)?,
            None => builder.code_object(CodeObject::default())?,
        };
        let instruction = lines::instruction(version, frame.instruction);
        builder.frame(Frame::Interpreted { code, instruction })
    }

    fn code_object(
        &mut self,
        builder: &mut Builder,
        sent: &Arc<SentCode>,
        interpreter: &Interpreter,
    ) -> Option<CodeObjectId> {
        let address = Arc::as_ptr(sent).addr();
        if let Some((_, id)) = self.ids.get(&address) {
            return Some(*id);
        }
        let lines = lines::lines(interpreter.version, sent.first_line, &sent.line_table);
        let SentCode { name, file, first_line, .. } = &**sent;
        let code = CodeObject { name: name.clone(), file: file.clone(), first_line: *first_line, lines };
        let bytes = code.name.len() + code.file.len() + size_of_val(&code.lines[..]);
        if self.bytes + bytes > MAX_BYTES {
            return builder.code_object(CodeObject::default());
        }
        let id = builder.code_object(code)?;
        self.bytes += bytes;
        self.ids.insert(address, (Arc::clone(sent), id));
        Some(id)
    }
}

/// Whether this is the code that the interpreter itself runs when `__init__` has returned, from 3.12 on. It has neither lines nor a file, and no
/// traceback shows it.
fn is_return_of_init(code: &SentCode) -> bool {
    code.first_line == 0 && code.name == "__init__" && code.file == "__init__"
}

/// Whether a native frame is in memory without a file.
fn is_made_at_run_time(message: &StackMessage, native: usize, image: &Image) -> bool {
    let Some(frame) = message.user.get(native) else { return false };
    let region = image.find(Avma(Frame::lookup(frame.pc, frame.exact)));
    region.is_some_and(|region| matches!(region.kind(), RegionKind::Anonymous | RegionKind::Trampolines(_)))
}

/// Leaves out the trampolines that the interpreter itself makes for functions (`-X perf`): each calls an evaluator, whose functions are shown.
fn without_trampolines(positions: &mut Vec<Position>, is_made_at_run_time: impl Fn(usize) -> bool) {
    let evaluators: Vec<usize> = positions
        .iter()
        .filter_map(|position| match position {
            Position::Evaluator(native) => Some(*native),
            _ => None,
        })
        .collect();
    positions.retain(|position| match position {
        Position::Native(native) => {
            let is_caller = native.checked_sub(1).is_some_and(|callee| evaluators.contains(&callee));
            !(is_caller && is_made_at_run_time(*native))
        }
        _ => true,
    });
}

#[cfg(test)]
mod tests;
