//! Recordings made from a sequence of numbers.

use profile::{Avma, BuildId, FileOffset, Label, Svma};
use proptest::prelude::*;

use crate::*;

/// A sequence of numbers that decides what is generated; zeros follow its end.
pub(super) struct Tape<I>(pub(super) I);

impl<I: Iterator<Item = u64>> Tape<I> {
    fn number(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
    }

    fn below(&mut self, limit: usize) -> u32 {
        (self.number() % limit as u64) as u32
    }

    fn flag(&mut self) -> bool {
        self.number() % 2 == 1
    }

    fn option<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn list<T>(&mut self, limit: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(limit)).map(|_| make(self)).collect()
    }

    fn text(&mut self) -> String {
        let number = self.number();
        ["", "a", "\u{e9}\u{4e16}", "/usr/lib/libc.so.6"][number as usize % 4].to_owned()
            + &format!("{:x}", number >> 50)
    }

    fn label(&mut self) -> Label {
        let key = self.text();
        if self.flag() { Label::num(&key, self.number() as i64) } else { Label::str(&key, &self.text()) }
    }

    fn build_id(&mut self) -> BuildId {
        let length = 4 + self.below(29) as usize;
        BuildId::new(&vec![self.number() as u8; length]).unwrap()
    }

    fn array<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.number())
    }

    fn settings(&mut self) -> Settings {
        Settings {
            agent_version: self.text(),
            targets: [TargetKind::Processes, TargetKind::System, TargetKind::Command][self.below(3) as usize],
            cpu_profile: self.flag(),
            event: self.option(Self::event),
            further_events: Vec::new(),
            heap_profile: self.flag(),
            off_cpu_profile: self.flag(),
            wall_profile: self.flag(),
            locks: self.flag(),
            sample_rate_hz: self.number() as u32,
            cpus: self.option(|tape| tape.list(9, |tape| tape.number() as u32)),
            unwind: self.text(),
            kernel_stacks: self.flag(),
            per_thread: self.flag(),
            off_cpu_states: self.list(4, |tape| OffCpuState::NAMES[tape.below(3) as usize].1),
            min_block_ns: self.number(),
            tags: self.list(4, |tape| (tape.text(), tape.text())),
        }
    }

    fn counters(&mut self) -> Counters {
        let [samples, lost_ring_full, skipped_min_block_ns, lifetime_ns] = self.array();
        let walks = self.array();
        Counters { samples, lost_ring_full, skipped_min_block_ns, lifetime_ns, walks, ..Counters::default() }
    }

    fn accounting(&mut self) -> Accounting {
        Accounting {
            sampler: self.counters(),
            scheduler: self.counters(),
            deferred_walks: [self.array(), self.array()],
            throttled_ns: self.number(),
            not_run: NotRun {
                periods: self.number(),
                worst: self.option(|tape| (tape.number() as u32, tape.number() as u32)),
            },
            not_kept: self.array(),
            without_stack: self.array(),
            never_began: self.flag(),
            cost: Cost {
                agent_cpu_ns: self.number(),
                bpf_cpu_ns: self.option(Self::number),
                ..Cost::default()
            },
            ..Accounting::default()
        }
    }

    /// One more event that was sampled.
    fn further_event(&mut self, all: &mut Recording) {
        let mut of_event = EventAccounting {
            sampler: self.counters(),
            deferred_walks: self.array(),
            throttled_ns: self.number(),
            not_run: NotRun { periods: self.number(), worst: None },
            not_kept: self.number(),
            without_stack: self.number(),
        };
        of_event.sampler.set_unsent(self.array());
        all.settings.further_events.push(self.event());
        all.accounting.further.push(of_event);
    }

    fn module(&mut self) -> Module {
        Module {
            path: self.text(),
            build_id: self.option(Self::build_id),
            kind: [ModuleKind::Elf, ModuleKind::NotElf, ModuleKind::InMemory][self.below(3) as usize],
            identity: FileIdentity {
                dev_major: self.number() as u32,
                dev_minor: self.number() as u32,
                inode: self.number(),
                mtime_ns: self.number() as i64,
                size: self.number(),
            },
        }
    }

    fn frame(&mut self, of: &Recording) -> Frame {
        let (address, exact) = (self.number(), self.flag());
        match self.below(5) {
            0 if !of.mappings.is_empty() => {
                let mapping = CodeMappingId(self.below(of.mappings.len()));
                Frame::Native { mapping, svma: Svma(address), exact }
            }
            1 if !of.exec_instances.is_empty() => {
                let program = ExecInstanceId(self.below(of.exec_instances.len()));
                Frame::Jit { program, address: Avma(address), exact }
            }
            2 if !of.code_objects.is_empty() => {
                let code = CodeObjectId(self.below(of.code_objects.len()));
                Frame::Interpreted { code, instruction: address as u32 }
            }
            3 => Frame::Kernel { address, exact },
            _ => Frame::Unknown { address: Avma(address) },
        }
    }

    fn stack(&mut self, of: &Recording) -> Stack {
        let limit = if of.frames.is_empty() { 1 } else { 40 };
        let frames: Box<[_]> = self.list(limit, |tape| FrameId(tape.below(of.frames.len()))).into();
        let reasons = [MissingStack::AsleepBefore, MissingStack::NotRunYet, MissingStack::Gate];
        Stack {
            kernel_frames: self.below(frames.len() + 1),
            end: WalkEnd::ALL[self.below(WalkEnd::ALL.len()) as usize],
            missing: self.option(|tape| reasons[tape.below(3) as usize]),
            frames,
        }
    }

    fn event(&mut self) -> Event {
        let units = [Unit::Count, Unit::Nanoseconds, Unit::Bytes];
        let folds = [Fold::Sum, Fold::SumOfSquares, Fold::Max];
        Event {
            name: self.text(),
            period: self.option(Self::number),
            period_unit: units[self.below(3) as usize],
            values: self.list(5, |tape| ValueSpec {
                name: tape.text(),
                unit: units[tape.below(3) as usize],
                fold: folds[tape.below(3) as usize],
            }),
        }
    }

    fn count(&mut self, of: &Recording) -> Count {
        let event = EventId(self.below(of.events.len()));
        let values = of.events[event.0 as usize].values.len();
        Count {
            event,
            stack: TaskStackId(self.below(of.task_stacks.len())),
            links: self.list(3, |tape| Link {
                role: if tape.flag() { Role::Waker } else { Role::Owner },
                stack: TaskStackId(tape.below(of.task_stacks.len())),
            }),
            object: self.option(|tape| Object {
                address: tape.number(),
                lock: tape.option(|tape| if tape.flag() { LockKind::Wait } else { LockKind::WaitBitset }),
            }),
            time_bin: self.option(|tape| tape.number() as u32),
            values: self.list(values + 1, Self::number),
        }
    }

    fn singles(&mut self, of: &Recording) -> Singles {
        let limit = if of.task_stacks.is_empty() || of.events.is_empty() { 1 } else { 20 };
        let samples = self.list(limit, |tape| {
            let event = EventId(tape.below(of.events.len()));
            Single {
                at_ns: tape.number() as i64,
                cpu: tape.number() as u32,
                tid: tape.number() as u32,
                stack: TaskStackId(tape.below(of.task_stacks.len())),
                values: tape.list(of.events[event.0 as usize].values.len() + 1, Self::number),
                waker: tape.option(|tape| TaskStackId(tape.below(of.task_stacks.len()))),
                event,
            }
        });
        Singles { samples, lost: self.number() }
    }

    pub(super) fn recording(&mut self) -> Recording {
        let mut all = Recording {
            settings: self.settings(),
            span: Span { start_ns: self.number() as i64, duration_ns: self.number() },
            kernel: KernelImage { build_id: self.option(Self::build_id), ..KernelImage::default() },
            accounting: self.accounting(),
            modules: self.list(4, Self::module),
            ..Recording::default()
        };
        if !all.modules.is_empty() {
            all.mappings = self.list(5, |tape| CodeMapping {
                module: ModuleId(tape.below(all.modules.len())),
                start: Svma(tape.number()),
                limit: Svma(tape.number()),
                file_offset: FileOffset(tape.number()),
            });
        }
        if !all.mappings.is_empty() {
            all.main = self.option(|tape| CodeMappingId(tape.below(all.mappings.len())));
        }
        all.exec_instances = self.list(3, |tape| ExecInstance {
            pid: tape.number() as u32,
            began_ns: tape.number() as i64,
            ended_ns: tape.option(|tape| tape.number() as i64),
            labels: tape.list(4, Self::label),
        });
        all.code_objects = self.list(3, |tape| CodeObject {
            name: tape.text(),
            file: tape.text(),
            first_line: tape.number() as u32,
            lines: tape.list(6, |tape| (tape.number() as u32, tape.number() as u32)),
        });
        all.frames = self.list(30, |tape| tape.frame(&all));
        all.stacks = self.list(10, |tape| tape.stack(&all));
        all.label_sets = self.list(4, |tape| tape.list(4, Self::label));
        if !all.label_sets.is_empty() {
            all.tasks = self.list(5, |tape| Task {
                pid: tape.option(|tape| tape.number() as u32),
                labels: LabelSetId(tape.below(all.label_sets.len())),
                thread: tape.option(|tape| ThreadId { tid: tape.number() as u32, name: tape.text() }),
            });
        }
        if !all.tasks.is_empty() && !all.stacks.is_empty() {
            all.task_stacks = self.list(20, |tape| TaskStack {
                task: TaskId(tape.below(all.tasks.len())),
                stack: StackId(tape.below(all.stacks.len())),
                state: State::ALL[tape.below(State::ALL.len()) as usize],
            });
        }
        all.events = self.list(4, Self::event);
        if !all.task_stacks.is_empty() && !all.events.is_empty() {
            all.counts = self.list(30, |tape| tape.count(&all));
        }
        all
    }

    fn name_frame(&mut self, names: &mut Names, frame: u32) {
        let texts = self.list(3, |tape| [tape.text(), tape.text(), tape.text()]);
        let numbers: [u64; 3] = self.array();
        let [line, column, start_line] = numbers.map(|number| number as u32);
        let lines = texts.iter().map(|[name, system_name, file]| NameLine {
            name,
            system_name,
            file,
            line,
            column,
            start_line,
        });
        names.enter(FrameId(frame), lines);
    }

    pub(super) fn symbolized(&mut self) -> SymbolizedRecording {
        let mut recording = self.recording();
        let mut names = Names::default();
        for frame in (0..recording.frames.len() as u32).rev() {
            if self.flag() {
                self.name_frame(&mut names, frame);
            }
        }
        names.outcome = NameOutcome {
            kernel: match self.below(4) {
                0 => KernelNaming::NotAsked,
                1 => KernelNaming::Known,
                2 => KernelNaming::Hidden,
                _ => KernelNaming::Unreadable(self.text()),
            },
            abandoned: self.number(),
            shortfalls: self.list(3, Self::text),
            fetches: None,
        };
        let modes = [Mode::OnCpu, Mode::OffCpu, Mode::Wall, Mode::Pmu];
        let ledgers = self.list(3, |tape| FrozenLedger {
            mode: modes[tape.below(4) as usize],
            entries: tape.list(5, |tape| (tape.text(), tape.text())),
        });
        // Last, so that all else is as before there were single samples.
        recording.singles = self.option(|tape| tape.singles(&recording));
        SymbolizedRecording { recording, names, ledgers }
    }
}

impl<I: Iterator<Item = u64>> Tape<I> {
    /// Counters that files have in a section of their own.
    pub(super) fn later_counters(&mut self, symbolized: &mut SymbolizedRecording) {
        let accounting = &mut symbolized.recording.accounting;
        for counters in [&mut accounting.sampler, &mut accounting.scheduler] {
            counters.set_unsent(self.array());
        }
    }

    pub(super) fn fetches(&mut self) -> Fetches {
        let [hits, misses, fetched, not_found, errors, retries, timeouts] = self.array();
        let [mismatch, too_large, bytes, evicted, cache_bytes, refused_mappings, wait_ms] = self.array();
        Fetches {
            hits,
            misses,
            fetched,
            not_found,
            errors,
            retries,
            timeouts,
            mismatch,
            too_large,
            bytes,
            evicted,
            cache_bytes,
            refused_mappings,
            wait_ms,
        }
    }

    /// What files of version 1.0 lack.
    pub(super) fn kernel(&mut self, build_id: Option<BuildId>) -> KernelImage {
        KernelImage {
            build_id,
            release: self.text(),
            boot_id: self.option(Self::text),
            text: self.option(|tape| Avma(tape.number())),
            stext: self.option(|tape| Avma(tape.number())),
            modules: self.list(4, |tape| KernelModule {
                name: tape.text(),
                text: Avma(tape.number()),
                size: tape.number(),
                build_id: tape.option(Self::build_id),
            }),
        }
    }
}

/// Pseudo-random numbers that depend on nothing but the seed.
pub(super) fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |last| {
        Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
    })
    .skip(1)
    .map(|number| number.rotate_left(32))
}

/// [`sample`] with single samples, all that is known of the kernel, and where it is from.
fn sample_whole() -> SymbolizedRecording {
    let mut symbolized = sample();
    let all = &mut symbolized.recording;
    let event = EventId(all.events.iter().position(|event| !event.values.is_empty()).unwrap() as u32);
    let single = |at_ns, cpu| Single {
        at_ns,
        cpu,
        tid: 7,
        event,
        stack: TaskStackId(0),
        values: vec![3],
        waker: None,
    };
    all.singles = Some(Singles { samples: vec![single(-5, 1), single(1_000_000, 0)], lost: 9 });
    let build_id = all.kernel.build_id.take();
    let mut kernels = (0..).map(|seed| Tape(numbers(seed)).kernel(build_id.clone()));
    let is_complete = |kernel: &KernelImage| {
        !kernel.modules.is_empty()
            && kernel.boot_id.is_some()
            && kernel.text.is_some()
            && kernel.stext.is_some()
    };
    all.kernel = kernels.find(is_complete).unwrap();
    all.origin = Origin { host: "web-1".to_owned(), target: "pid 7 (nginx)".to_owned() };
    symbolized
}

/// The same with frames of which only the start of their function is known.
fn sample_with_starts() -> SymbolizedRecording {
    let mut symbolized = sample_whole();
    for frame in (0..symbolized.recording.frames.len() as u32).step_by(2) {
        symbolized.names.enter_start(FrameId(frame), Svma(0x1000 + u64::from(frame)));
    }
    symbolized
}

/// The same with what could not be sent to user space, and with what was fetched.
fn sample_with_fetches() -> SymbolizedRecording {
    let mut symbolized = sample_with_starts();
    Tape(numbers(22)).later_counters(&mut symbolized);
    symbolized.names.outcome.fetches = Some(Tape(numbers(23)).fetches());
    symbolized
}

/// The same with a waker of a single sample.
fn sample_with_wakers() -> SymbolizedRecording {
    let mut symbolized = sample_with_fetches();
    let singles = symbolized.recording.singles.iter_mut().flat_map(|singles| &mut singles.samples);
    for single in singles.skip(1) {
        single.waker = Some(TaskStackId(1));
    }
    symbolized
}

/// The same with events that were sampled beside the first one.
pub(super) fn sample_6_0() -> SymbolizedRecording {
    let mut symbolized = sample_with_wakers();
    let mut tape = Tape(numbers(24));
    (0..2).for_each(|_| tape.further_event(&mut symbolized.recording));
    symbolized
}

/// A small recording that has something of everything but single samples.
pub(super) fn sample() -> SymbolizedRecording {
    let mut samples = (0..).map(|seed| Tape(numbers(seed)).symbolized());
    let mut symbolized = samples.find(has_everything).unwrap();
    symbolized.recording.singles = None;
    symbolized
}

fn has_everything(symbolized: &SymbolizedRecording) -> bool {
    let all = &symbolized.recording;
    let tables = [
        all.modules.len(),
        all.mappings.len(),
        all.exec_instances.len(),
        all.code_objects.len(),
        all.frames.len(),
        all.stacks.len(),
        all.label_sets.len(),
        all.tasks.len(),
        all.task_stacks.len(),
        all.events.len(),
        all.counts.len(),
        symbolized.names.len(),
        symbolized.ledgers.len(),
    ];
    let has_values = all.events.iter().any(|event| !event.values.is_empty());
    all.main.is_some() && all.frames.len() > 20 && has_values && !tables.contains(&0)
}

/// Any recordings with names.
pub(super) fn recordings() -> impl Strategy<Value = SymbolizedRecording> {
    prop::collection::vec(any::<u64>(), 0..1500).prop_map(|words| {
        let mut tape = Tape(words.into_iter());
        let mut symbolized = tape.symbolized();
        let build_id = symbolized.recording.kernel.build_id.take();
        symbolized.recording.kernel = tape.kernel(build_id);
        symbolized.recording.origin = Origin { host: tape.text(), target: tape.text() };
        for frame in 0..symbolized.recording.frames.len() as u32 {
            if tape.flag() {
                symbolized.names.enter_start(FrameId(frame), Svma(tape.number()));
            }
        }
        tape.later_counters(&mut symbolized);
        symbolized.names.outcome.fetches = tape.option(Tape::fetches);
        for _ in 0..tape.below(3) {
            tape.further_event(&mut symbolized.recording);
        }
        symbolized
    })
}
