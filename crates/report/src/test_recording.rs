//! Recordings for tests, made with the builder that captures use.

use profile::{Avma, BuildId, FileOffset, Label, LabelValue, Profile, Sample, Svma};
use recording::{
    Accounting, Builder, CodeMapping, CodeObject, Context, Event, EventId, ExecInstance, FileIdentity, Frame,
    FrameId, KernelImage, Key, Limits, MissingStack, Module, ModuleKind, NameLine, Names, OffCpuState,
    Origin, Settings, Span, Stack, StackSums, State, SymbolizedRecording, TaskId, TaskStackId, ThreadId,
    WalkEnd,
};

pub(crate) const PERIOD_NS: u64 = 10_000_000;
const CPU_CLOCK: EventId = EventId(0);
const SCHEDULER: EventId = EventId(1);

/// A recording while it is made, of a process 7 named `target`.
pub(crate) struct TestRecording {
    pub(crate) builder: Builder,
    pub(crate) names: Names,
    pub(crate) settings: Settings,
    pub(crate) accounting: Accounting,
    pub(crate) task: TaskId,
    keys: u64,
}

impl TestRecording {
    /// All profiles are taken, and kernel frames are shown.
    pub(crate) fn new() -> Self {
        let mut builder = Builder::new(Limits::default());
        let labels = vec![Label::str("comm", "target"), Label::str("pod", "p")];
        let task = builder.task(Some(7), labels, None).unwrap();
        let settings = Settings {
            cpu_profile: true,
            off_cpu_profile: true,
            wall_profile: true,
            kernel_stacks: true,
            sample_rate_hz: 100,
            unwind: "dwarf".to_owned(),
            off_cpu_states: OffCpuState::NAMES.map(|(_, state)| state).to_vec(),
            tags: vec![("run".to_owned(), "one".to_owned())],
            ..Settings::default()
        };
        Self { builder, names: Names::default(), settings, accounting: Accounting::default(), task, keys: 0 }
    }

    /// A named frame in a file.
    pub(crate) fn frame(&mut self, name: &str) -> FrameId {
        let frame = self.nameless("/bin/target", name.len() as u64 * 0x100 + u64::from(name.as_bytes()[0]));
        self.name(frame, name);
        frame
    }

    /// A frame in a file, without a name.
    pub(crate) fn nameless(&mut self, path: &str, svma: u64) -> FrameId {
        self.in_file(path, ModuleKind::Elf, svma, false)
    }

    /// A frame in a file that could not be opened.
    pub(crate) fn unread(&mut self, path: &str, svma: u64) -> FrameId {
        self.in_file(path, ModuleKind::NotElf, svma, false)
    }

    fn in_file(&mut self, path: &str, kind: ModuleKind, svma: u64, exact: bool) -> FrameId {
        let module =
            Module { path: path.to_owned(), build_id: None, kind, identity: FileIdentity::default() };
        let module = self.builder.module(module).unwrap();
        let mapping =
            CodeMapping { module, start: Svma(0), limit: Svma(0x10000), file_offset: FileOffset(0) };
        let mapping = self.builder.mapping(mapping).unwrap();
        self.builder.frame(Frame::Native { mapping, svma: Svma(svma), exact }).unwrap()
    }

    /// An instruction in a file, without a name.
    pub(crate) fn exact(&mut self, path: &str, svma: u64) -> FrameId {
        self.in_file(path, ModuleKind::Elf, svma, true)
    }

    pub(crate) fn kernel_frame(&mut self, name: &str) -> FrameId {
        let address = 0xffff_ffff_8000_0000 + name.bytes().map(u64::from).sum::<u64>();
        let frame = self.builder.frame(Frame::Kernel { address, exact: false }).unwrap();
        self.name(frame, name);
        frame
    }

    pub(crate) fn nameless_kernel(&mut self, offset: u64) -> FrameId {
        self.builder.frame(Frame::Kernel { address: 0xffff_ffff_9000_0000 + offset, exact: false }).unwrap()
    }

    pub(crate) fn unmapped(&mut self, address: u64) -> FrameId {
        self.builder.frame(Frame::Unknown { address: Avma(address) }).unwrap()
    }

    pub(crate) fn jit_frame(&mut self, address: u64) -> FrameId {
        let instance = ExecInstance { pid: 7, began_ns: 0, ended_ns: None, labels: Vec::new() };
        let program = self.builder.exec_instance(instance).unwrap();
        self.builder.frame(Frame::Jit { program, address: Avma(address), exact: false }).unwrap()
    }

    pub(crate) fn interpreted_frame(&mut self, name: &str) -> FrameId {
        let code = CodeObject { name: name.to_owned(), ..CodeObject::default() };
        let code = self.builder.code_object(code).unwrap();
        self.builder.frame(Frame::Interpreted { code, instruction: 4 }).unwrap()
    }

    pub(crate) fn name(&mut self, frame: FrameId, name: &str) {
        self.names.enter(frame, [NameLine { name, system_name: name, ..NameLine::default() }]);
    }

    /// A stack of the process.
    pub(crate) fn stack(
        &mut self,
        kernel: &[FrameId],
        user: &[FrameId],
        end: WalkEnd,
        state: State,
    ) -> TaskStackId {
        self.stack_of(self.task, kernel, user, end, state)
    }

    pub(crate) fn stack_of(
        &mut self,
        task: TaskId,
        kernel: &[FrameId],
        user: &[FrameId],
        end: WalkEnd,
        state: State,
    ) -> TaskStackId {
        let frames = [kernel, user].concat().into();
        let stack = Stack { frames, kernel_frames: kernel.len() as u32, end, missing: None };
        self.builder.task_stack(task, stack, state).unwrap()
    }

    /// A stack of the process that is not known.
    pub(crate) fn missing(&mut self, missing: MissingStack, state: State) -> TaskStackId {
        let stack = Stack { frames: [].into(), kernel_frames: 0, end: WalkEnd::Root, missing: Some(missing) };
        self.builder.task_stack(self.task, stack, state).unwrap()
    }

    pub(crate) fn waker(&mut self, tid: u32, name: &str) -> TaskId {
        let thread = Some(ThreadId { tid, name: name.to_owned() });
        self.builder.task(None, vec![Label::str("comm", &format!("{name}-process"))], thread).unwrap()
    }

    pub(crate) fn add_samples(&mut self, stack: TaskStackId, count: u64) {
        self.builder.add_single(CPU_CLOCK, stack, StackSums { count, value: count, waited: 0 });
    }

    /// Adds samples of an event by its number among the sampled ones.
    pub(crate) fn add_samples_of(&mut self, number: usize, stack: TaskStackId, count: u64) {
        self.builder.add_single(
            EventId::sampled(number),
            stack,
            StackSums { count, value: count, waited: 0 },
        );
    }

    pub(crate) fn add_intervals(&mut self, stack: TaskStackId, count: u64, value: u64, waited: u64) {
        self.builder.add_single(SCHEDULER, stack, StackSums { count, value, waited });
    }

    pub(crate) fn add_woken(&mut self, blocked: TaskStackId, waker: TaskStackId, count: u64, value: u64) {
        let (hash, of_blocked, of_waker) = (self.keys, self.keys + 1, self.keys + 2);
        self.keys += 3;
        for (hash, stack) in [(of_blocked, blocked), (of_waker, waker)] {
            self.builder.enter(hash, Key { event: SCHEDULER, stack, pid: 7, exec_id: 1, once: false });
        }
        self.builder.enter_pair(hash, SCHEDULER, State::Blocked, of_blocked, of_waker);
        self.builder.add(hash, SCHEDULER, State::Blocked, StackSums { count, value, waited: 0 });
    }

    pub(crate) fn finish(self) -> SymbolizedRecording {
        let clock = || Event::cpu_clock("software/cpu-clock", PERIOD_NS);
        let sampled = match self.settings.heap_profile {
            true => Event::heap(),
            false => self.settings.event.clone().unwrap_or_else(clock),
        };
        let mut events =
            vec![sampled, Event::scheduler("sched:sched_switch"), Event::locks(), Event::lock_lengths()];
        events.extend(self.settings.further_events.iter().cloned());
        let context = Context {
            settings: self.settings,
            span: Span { start_ns: 5, duration_ns: 1_000_000_000 },
            start_ns: 0,
            origin: Origin::default(),
            kernel: KernelImage { build_id: BuildId::new(&[1, 2, 3, 4]).ok(), ..KernelImage::default() },
            main: None,
            events,
            accounting: self.accounting,
        };
        let recording = self.builder.finish(context);
        SymbolizedRecording { recording, names: self.names, ledgers: Vec::new() }
    }
}

/// The samples of a profile in their order: frames from the leaf on, labels, values.
pub(crate) fn samples(profile: &Profile) -> Vec<String> {
    profile.samples.iter().map(|sample| sample_text(profile, sample)).collect()
}

fn sample_text(profile: &Profile, sample: &Sample) -> String {
    let frame = |location: &profile::LocationId| {
        let location = &profile.locations[location.0 as usize];
        let name = |line: &profile::Line| profile.functions[line.function.0 as usize].name.clone();
        let names: Vec<_> = location.lines.iter().map(name).collect();
        if names.is_empty() { format!("{:#x}", location.address) } else { names.join("<") }
    };
    let label = |label: &Label| match &label.value {
        LabelValue::Str(text) => format!("{}={text}", label.key),
        LabelValue::Num(number) => format!("{}={number}", label.key),
    };
    let frames: Vec<_> = sample.locations.iter().map(frame).collect();
    let labels: Vec<_> = sample.labels.iter().map(label).collect();
    let values: Vec<_> = sample.values.iter().map(i64::to_string).collect();
    format!("{} {} {}", frames.join(";"), labels.join(","), values.join(","))
}
