//! From addresses in a process to frames of the recording: files with link-time addresses, code made at run time, kernel, unknown.
//!
//! A stack is resolved when it is first seen, while its process most probably lives. Files stay open and programs stay known as long as
//! an interval uses them, so that names are found even after the process has ended.

use std::collections::HashMap;
use std::sync::Arc;

use interpreters::python::merge::Position;
use kernel::{StackMessage, WalkEnd};
use process::{FileKey, FileKind, MappedFile, RegionKind};
use profile::{Avma, FileOffset, Label, Svma};
use recording::{
    Builder, CodeMapping, CodeMappingId, ExecInstance, ExecInstanceId, FileIdentity, Frame, FrameId,
    MissingStack, Module, ModuleId, ModuleKind, Renumbering, Stack, State, TaskId, TaskStackId, ThreadId,
};

use super::convert;
use super::python_stacks::PythonStacks;
use super::shared_locks::SharedPlace;
use crate::Config;
use crate::naming::{DotNetMaps, LiveModule, LiveProgram, PerfMapOwners, WhoIsAsked};
use crate::processes::{ExecInstance as LiveInstance, ProcessSnapshot};
use crate::python::Pythons;

/// On x86-64, where the kernel and its modules lie; memory that it allocates is below (Documentation/arch/x86/x86_64/mm.rst).
const KERNEL_IMAGE: u64 = 0xffff_ffff_8000_0000;

/// The process of a command before it executes the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) pid: u32,
    /// When it was made.
    pub(super) exec_id: u64,
}

/// Resolves the stacks of one capture.
pub(super) struct Resolver {
    per_thread: bool,
    /// Runtimes that are asked for their perf maps.
    asked: WhoIsAsked,
    gate: Option<Gate>,
    module_ids: HashMap<FileKey, ModuleId>,
    modules: HashMap<ModuleId, LiveModule>,
    /// By address of the process's record.
    program_ids: HashMap<usize, ExecInstanceId>,
    programs: HashMap<ExecInstanceId, Arc<LiveProgram>>,
    owners: PerfMapOwners,
    /// Programs in Python, if their functions are shown.
    pub(super) python: Option<PythonStacks>,
}

impl Resolver {
    pub(super) fn new(config: &Config, gate: Option<Gate>, python: Option<PythonStacks>) -> Self {
        Self {
            per_thread: config.per_thread,
            asked: WhoIsAsked {
                java: config.java_perf_map,
                dotnet: config.dotnet_perf_map.then(DotNetMaps::default),
            },
            gate,
            module_ids: HashMap::new(),
            modules: HashMap::new(),
            program_ids: HashMap::new(),
            programs: HashMap::new(),
            owners: PerfMapOwners::default(),
            python,
        }
    }

    /// The file of a module of the present interval.
    pub(super) fn module(&self, id: ModuleId) -> Option<&LiveModule> {
        self.modules.get(&id)
    }

    /// The program behind code that was made at run time.
    pub(super) fn program(&self, id: ExecInstanceId) -> Option<Arc<LiveProgram>> {
        self.programs.get(&id).cloned()
    }

    /// The processes with an interpreter of Python, if their functions are shown.
    pub(super) fn pythons(&mut self) -> Option<&mut Pythons> {
        self.python.as_mut().map(|python| &mut python.pythons)
    }

    /// Nothing is recorded any more: runtimes that write their perf maps for us stop to. Tells what failed.
    pub(super) fn end_capture(&self) -> Vec<String> {
        self.asked.dotnet.as_ref().map(DotNetMaps::end_capture).unwrap_or_default()
    }

    /// The stack of a message as the recording has it. `None`: a limit of the recording is reached.
    pub(super) fn resolve(
        &mut self,
        builder: &mut Builder,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        missing: Option<MissingStack>,
    ) -> Option<TaskStackId> {
        let state = convert::state(message.state);
        let missing = missing.or((state == State::NotRunYet).then_some(MissingStack::NotRunYet));
        let missing = if self.is_gate(message) { Some(MissingStack::Gate) } else { missing };
        let python = message.attached.interpreted.len();
        let mut frames = Vec::with_capacity(message.kernel.len() + python + message.user.len());
        for (depth, address) in message.kernel.iter().enumerate() {
            frames.push(builder.frame(Frame::Kernel { address: *address, exact: depth == 0 })?);
        }
        self.user_frames(builder, message, snapshot, &mut frames)?;
        let stack = Stack {
            frames: frames.into(),
            kernel_frames: message.kernel.len() as u32,
            end: convert::walk_end(message.end),
            missing,
        };
        let task = self.task(builder, message, snapshot)?;
        builder.task_stack(task, stack, state)
    }

    /// Adds the user frames: native ones, and functions in Python in the places of the interpreter's.
    fn user_frames(
        &mut self,
        builder: &mut Builder,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        frames: &mut Vec<FrameId>,
    ) -> Option<()> {
        let merged = self.python.as_mut().and_then(|python| python.merge(message, snapshot));
        let Some((merged, snapshot)) = merged.zip(snapshot) else {
            for depth in 0..message.user.len() {
                frames.extend(self.native_frame(builder, message, depth, snapshot)?);
            }
            return Some(());
        };
        for position in &merged.positions {
            match *position {
                Position::Native(depth) | Position::Evaluator(depth) => {
                    frames.extend(self.native_frame(builder, message, depth, Some(snapshot))?);
                }
                Position::Python(depth) => {
                    let frame = message.attached.interpreted.get(depth);
                    if let Some((python, frame)) = self.python.as_mut().zip(frame) {
                        frames.push(python.frame(builder, frame, &merged, snapshot.instance)?);
                    }
                }
            }
        }
        Some(())
    }

    /// A native frame of a message; none at a depth that it does not have.
    fn native_frame(
        &mut self,
        builder: &mut Builder,
        message: &StackMessage,
        depth: usize,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) -> Option<Option<FrameId>> {
        let Some(frame) = message.user.get(depth) else { return Some(None) };
        // No call leads to a signal trampoline: its address is that of its first instruction.
        let is_trampoline = message.user.get(depth + 1).is_some_and(|caller| caller.exact);
        let (address, exact) = (Avma(frame.pc), frame.exact || is_trampoline);
        // In exec a thread has the registers of the old program until it runs the new one.
        let is_of_old = |snapshot: &ProcessSnapshot<'_>| {
            message.end == WalkEnd::Exiting && snapshot.image.find(address).is_none()
        };
        let old = snapshot.filter(is_of_old).and_then(|snapshot| {
            let (image, instance) = snapshot.before?;
            Some(ProcessSnapshot { image, instance, ..snapshot })
        });
        self.frame(builder, address, exact, old.or(snapshot)).map(Some)
    }

    /// The stack of one frame that a lock is, if it is a variable of a file that a process has loaded: in its `.data` or `.bss`, which follow
    /// its code at a distance that does not depend on where it was loaded.
    pub(super) fn lock_place(
        &mut self,
        builder: &mut Builder,
        pid: u32,
        address: u64,
        snapshot: ProcessSnapshot<'_>,
    ) -> Option<TaskStackId> {
        let regions = snapshot.image.regions();
        let region = regions.last_before(Avma(address))?;
        let file = region.file().filter(|file| file.kind() == FileKind::Elf)?;
        let bias = region.start.0.wrapping_sub(file.svma_of(region.offset_of(region.start))?.0);
        let svma = Svma(address.wrapping_sub(bias));
        let segment =
            file.segments().iter().find(|segment| (segment.start..segment.limit).contains(&svma))?;
        let module = self.module_id(builder, file)?;
        let mapping = builder.mapping(CodeMapping {
            module,
            start: segment.start,
            limit: segment.limit,
            file_offset: segment.file_offset,
        })?;
        let frame = builder.frame(Frame::Native { mapping, svma, exact: true })?;
        let labels = vec![Label::str("comm", snapshot.comm)];
        let task = builder.task(Some(pid), labels, None)?;
        let stack =
            Stack { frames: [frame].into(), kernel_frames: 0, end: recording::WalkEnd::Root, missing: None };
        builder.task_stack(task, stack, State::Blocked)
    }

    /// A lock in memory that processes share: its place in the file behind that memory.
    pub(super) fn shared_lock_place(
        &mut self,
        builder: &mut Builder,
        place: &SharedPlace,
    ) -> Option<TaskStackId> {
        let module = builder.module(place.module.clone())?;
        let whole = CodeMapping { module, start: Svma(0), limit: Svma(u64::MAX), file_offset: FileOffset(0) };
        let mapping = builder.mapping(whole)?;
        let frame = builder.frame(Frame::Native { mapping, svma: Svma(place.offset), exact: true })?;
        let task = builder.task(None, Vec::new(), None)?;
        let stack =
            Stack { frames: [frame].into(), kernel_frames: 0, end: recording::WalkEnd::Root, missing: None };
        builder.task_stack(task, stack, State::Blocked)
    }

    /// A lock of the kernel that is a variable of it or of a module.
    pub(super) fn kernel_lock_place(&mut self, builder: &mut Builder, address: u64) -> Option<TaskStackId> {
        let is_variable = cfg!(target_arch = "x86_64") && address >= KERNEL_IMAGE;
        let frame = is_variable.then(|| builder.frame(Frame::Kernel { address, exact: true }))??;
        let task = builder.task(None, Vec::new(), None)?;
        let stack =
            Stack { frames: [frame].into(), kernel_frames: 1, end: recording::WalkEnd::Root, missing: None };
        builder.task_stack(task, stack, State::Blocked)
    }

    /// Whether it is of a command before its first instruction, when it waits for the capture to begin.
    pub(super) fn is_gate(&self, message: &StackMessage) -> bool {
        let is_it = |gate: Gate| (gate.pid, gate.exec_id) == (message.pid, message.exec_id);
        self.gate.is_some_and(is_it) && !message.state.is_waker()
    }

    fn task(
        &mut self,
        builder: &mut Builder,
        message: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) -> Option<TaskId> {
        let waker = message.state.is_waker();
        let comm = snapshot.map_or(message.thread.as_str(), |snapshot| snapshot.comm);
        // Of a waker only the name is shown.
        let added = snapshot.filter(|_| !waker).map_or(&[][..], |snapshot| snapshot.labels);
        let labels = std::iter::once(Label::str("comm", comm)).chain(added.iter().cloned()).collect();
        let tid = if waker { message.tid.min(1) } else { message.tid };
        let thread = (waker || self.per_thread).then(|| ThreadId { tid, name: message.thread.clone() });
        builder.task((!waker).then_some(message.pid), labels, thread)
    }

    fn frame(
        &mut self,
        builder: &mut Builder,
        address: Avma,
        exact: bool,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) -> Option<FrameId> {
        // The call instruction of a caller may be the last one of its region.
        let lookup = Avma(Frame::lookup(address.0, exact));
        let found = snapshot.and_then(|snapshot| Some((snapshot.image.find(lookup)?, snapshot.instance)));
        let frame = match found.map(|(region, instance)| (region, region.kind(), instance)) {
            Some((region, RegionKind::File(file) | RegionKind::Vdso(file), _)) => {
                let offset = region.offset_of(lookup);
                let in_file = file.svma_of(offset).filter(|_| file.kind() != FileKind::NotElf);
                let svma = in_file.map_or(offset.0, |svma| svma.0).wrapping_add(u64::from(!exact));
                let mapping = self.mapping(builder, file, offset)?;
                Frame::Native { mapping, svma: Svma(svma), exact }
            }
            // The stack could wait no longer: all that is known of the file is its path.
            Some((region, RegionKind::Opening(file), _)) => {
                let (offset, file) = (region.offset_of(lookup), file.unanswered());
                let svma = Svma(offset.0.wrapping_add(u64::from(!exact)));
                Frame::Native { mapping: self.mapping(builder, file, offset)?, svma, exact }
            }
            Some((region, RegionKind::Anonymous | RegionKind::Trampolines(_), instance)) => {
                let program = self.program_id(builder, instance)?;
                if let (Some(live), Some(snapshot)) = (self.programs.get(&program), snapshot) {
                    live.look_for_dump(snapshot.image);
                    live.note_code(snapshot.image, region);
                }
                Frame::Jit { program, address, exact }
            }
            Some((_, RegionKind::KernelPage, _)) | None => Frame::Unknown { address },
        };
        builder.frame(frame)
    }

    fn mapping(
        &mut self,
        builder: &mut Builder,
        file: &Arc<MappedFile>,
        offset: profile::FileOffset,
    ) -> Option<CodeMappingId> {
        let module = self.module_id(builder, file)?;
        builder.mapping(code_mapping(module, file, offset))
    }

    fn module_id(&mut self, builder: &mut Builder, file: &Arc<MappedFile>) -> Option<ModuleId> {
        if let Some(id) = self.module_ids.get(&file.key()) {
            return Some(*id);
        }
        let id = builder.module(module_of(file))?;
        self.module_ids.insert(file.key(), id);
        self.modules.entry(id).or_insert_with(|| LiveModule { file: Arc::clone(file) });
        Some(id)
    }

    fn program_id(&mut self, builder: &mut Builder, instance: &Arc<LiveInstance>) -> Option<ExecInstanceId> {
        let address = Arc::as_ptr(instance).addr();
        if let Some(id) = self.program_ids.get(&address) {
            return Some(*id);
        }
        let program = LiveProgram::at_first_sight(instance, &mut self.owners, &self.asked);
        let recorded = ExecInstance {
            pid: instance.pid,
            began_ns: convert::since_epoch_ns(instance.began()),
            ended_ns: None,
            labels: Vec::new(),
        };
        let id = builder.exec_instance(recorded)?;
        self.program_ids.insert(address, id);
        self.programs.insert(id, Arc::new(program));
        Some(id)
    }

    /// Keeps what the next interval uses, under its new numbers.
    pub(super) fn renumber(&mut self, renumbering: &Renumbering) {
        self.python.iter_mut().for_each(PythonStacks::begin_interval);
        let modules: HashMap<ModuleId, ModuleId> = renumbering.modules.iter().copied().collect();
        self.module_ids.retain(|_, id| modules.get(id).inspect(|new| *id = **new).is_some());
        let mut live = std::mem::take(&mut self.modules);
        self.modules =
            renumbering.modules.iter().filter_map(|(old, new)| Some((*new, live.remove(old)?))).collect();
        let programs: HashMap<ExecInstanceId, ExecInstanceId> =
            renumbering.exec_instances.iter().copied().collect();
        self.program_ids.retain(|_, id| programs.get(id).inspect(|new| *id = **new).is_some());
        let mut live = std::mem::take(&mut self.programs);
        self.programs = renumbering
            .exec_instances
            .iter()
            .filter_map(|(old, new)| Some((*new, live.remove(old)?)))
            .collect();
    }
}

/// A mapped file as the recording has it.
pub(super) fn module_of(file: &MappedFile) -> Module {
    let identity = file.identity();
    Module {
        path: file.path().to_owned(),
        build_id: file.build_id().cloned(),
        kind: match file.kind() {
            FileKind::Elf => ModuleKind::Elf,
            FileKind::NotElf => ModuleKind::NotElf,
            FileKind::InMemory => ModuleKind::InMemory,
        },
        identity: FileIdentity {
            dev_major: identity.dev_major,
            dev_minor: identity.dev_minor,
            inode: identity.inode,
            mtime_ns: identity.mtime_ns,
            size: identity.size,
        },
    }
}

/// The loaded range of a file that covers a position.
pub(super) fn code_mapping(module: ModuleId, file: &MappedFile, offset: profile::FileOffset) -> CodeMapping {
    let mapping = file.mapping_for(offset);
    CodeMapping { module, start: mapping.start, limit: mapping.limit, file_offset: mapping.file_offset }
}
