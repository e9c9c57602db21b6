//! From stacks, sums and names to a [`Profile`].

use std::collections::HashMap;
use std::slice;

use kernel::{State, WalkEnd};
use profile::{
    BuildId, Builder, FileOffset, Function, Label, LabelValue, Line, LocationId, Mapping, MappingId, Profile,
    Svma, ValueType,
};

use super::names::{Names, Shown};
use super::shown;
use super::stacks::{Entry, Place, PlaceId, Stack, Stacks};
use crate::ledger::WallClock;
use crate::processes::ProcessSnapshot;
use crate::{Config, Ledger, Mode, OffCpuState};

/// Kernel addresses are all above this; of both architectures' layouts the lower one.
const KERNEL_START: u64 = 0xff00_0000_0000_0000;

/// How names of kernel functions begin that lead from a tracepoint to our programs.
const OWN_FRAMES: [&str; 5] =
    ["bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"];
/// They are among the first so many.
const MAX_OWN_FRAMES: usize = 8;
/// How names of kernel functions begin through which interrupts come in.
const INTERRUPT_ENTRIES: [&str; 3] = ["asm_sysvec_", "asm_common_interrupt", "asm_exc_nmi"];

/// The times of a capture.
pub(super) struct Times {
    pub(super) start_ns: i64,
    pub(super) duration_ns: i64,
}

/// What the profiles are made of.
pub(super) struct Material<'a> {
    pub(super) config: &'a Config,
    pub(super) stacks: &'a Stacks,
    pub(super) names: &'a Names,
    /// The executable of the first target.
    pub(super) main: Option<Mapping>,
    pub(super) times: Times,
}

impl Material<'_> {
    /// The on-CPU profile; completes the figures of the ledger that depend on names, and stores it as comments.
    pub(super) fn cpu_profile(&self, ledger: &mut Ledger) -> Profile {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let period_ns = 1_000_000_000 / i64::from(self.config.sample_rate_hz);
        let mut assembly = self.begin(&[ValueType::new("samples", "count"), cpu.clone()], cpu, period_ns);
        for entry in self.stacks.iter().filter(|entry| entry.stack.state == State::Sampled) {
            let count = signed(entry.sums.count);
            let locations = assembly.locations_of(&entry, ledger);
            add_process(ledger, &entry);
            assembly.builder.add(labels(&entry.stack), locations, &[count, count.saturating_mul(period_ns)]);
        }
        self.finish(assembly, ledger)
    }

    /// The off-CPU profile, in the states that were asked for.
    pub(super) fn off_cpu_profile(&self, ledger: &mut Ledger) -> Profile {
        let off_cpu = ValueType::new("offcpu", "nanoseconds");
        let mut assembly = self.begin(&[ValueType::new("blocks", "count"), off_cpu.clone()], off_cpu, 1);
        for entry in self.stacks.iter() {
            let Some(state) = off_cpu_state(entry.stack.state) else { continue };
            if !shown::is_shown(self.config, Mode::OffCpu, entry.stack.state) {
                continue;
            }
            ledger.off_cpu_ns += entry.sums.value;
            add_process(ledger, &entry);
            let locations = assembly.locations_of(&entry, ledger);
            let mut labels = labels(&entry.stack);
            labels.push(Label::str("state", state.name()));
            let values = [signed(entry.sums.count), signed(entry.sums.value)];
            assembly.builder.add(labels, locations, &values);
        }
        self.finish(assembly, ledger)
    }

    /// On-CPU and off-CPU time as one profile. The scheduler tells how long each process (or thread) was on a CPU, its
    /// samples tell where.
    pub(super) fn wall_profile(&self, ledger: &mut Ledger) -> Profile {
        let wall = ValueType::new("wall", "nanoseconds");
        let mut assembly = self.begin(slice::from_ref(&wall), wall.clone(), 1);
        let mut sums = WallClock {
            threads_ns: ledger.wall_clock.unwrap_or_default().threads_ns,
            ..WallClock::default()
        };
        let mut on_cpu: HashMap<Vec<Label>, (u64, u64)> = HashMap::new();
        for entry in self.stacks.iter() {
            match entry.stack.state {
                State::OnCpu => on_cpu.entry(labels(&entry.stack)).or_default().0 += entry.sums.value,
                State::Sampled => on_cpu.entry(labels(&entry.stack)).or_default().1 += entry.sums.count,
                _ => {}
            }
        }
        for entry in self.stacks.iter() {
            let (time_ns, runnable_ns, state) = match (entry.stack.state, off_cpu_state(entry.stack.state)) {
                (State::Sampled, _) => {
                    let (time_ns, samples) = on_cpu[&labels(&entry.stack)];
                    let share =
                        u128::from(time_ns) * u128::from(entry.sums.count) / u128::from(samples.max(1));
                    sums.on_cpu_ns += share as u64;
                    (share as u64, 0, "on-cpu")
                }
                (_, Some(state)) => {
                    let asleep_ns = entry.sums.value - entry.sums.waited.min(entry.sums.value);
                    match state {
                        OffCpuState::IoWait => sums.io_wait_ns += asleep_ns,
                        _ => sums.blocked_ns += asleep_ns,
                    }
                    sums.run_queue_ns += entry.sums.waited;
                    (asleep_ns, entry.sums.waited, state.name())
                }
                _ => continue,
            };
            // What took no time has no sample, and no location.
            if time_ns == 0 && runnable_ns == 0 {
                continue;
            }
            let locations = assembly.locations_of(&entry, ledger);
            for (ns, state) in [(time_ns, state), (runnable_ns, "runqueue")] {
                if ns > 0 {
                    let mut labels = labels(&entry.stack);
                    labels.push(Label::str("state", state));
                    assembly.builder.add(labels, locations.clone(), &[signed(ns)]);
                }
            }
        }
        for (mut labels, (time_ns, samples)) in on_cpu {
            if samples == 0 && time_ns > 0 {
                sums.on_cpu_ns += time_ns;
                labels.push(Label::str("state", "on-cpu"));
                let location = assembly.builder.synthetic("[on CPU between two samples]");
                assembly.builder.add(labels, vec![location], &[signed(time_ns)]);
            }
        }
        ledger.wall_clock = Some(sums);
        self.finish(assembly, ledger)
    }

    fn begin(&self, types: &[ValueType], period_type: ValueType, period: i64) -> Assembly<'_> {
        let mut assembly = Assembly {
            builder: Builder::new(types, period_type, period),
            locations: HashMap::new(),
            kernel: None,
            stacks: self.stacks,
            names: self.names,
            kernel_stacks: self.config.kernel_stacks,
        };
        if let Some(main) = &self.main {
            assembly.builder.mapping(main.clone());
        }
        assembly
    }

    fn finish(&self, assembly: Assembly<'_>, ledger: &mut Ledger) -> Profile {
        let tags = self.config.tags.iter().map(|(key, value)| format!("{key}={value}"));
        let entries = ledger.entries().into_iter().map(|(key, value)| format!("perf-agent.{key}={value}"));
        let comments = tags.chain(entries).collect();
        assembly.builder.finish(self.times.start_ns, self.times.duration_ns, comments)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The state as it is shown.
pub(super) fn off_cpu_state(state: State) -> Option<OffCpuState> {
    match state {
        State::Blocked => Some(OffCpuState::Blocked),
        State::IoWait => Some(OffCpuState::IoWait),
        State::Preempted | State::NotRunYet => Some(OffCpuState::Preempted),
        State::Sampled | State::OnCpu | State::Waker | State::WakerInSoftirq => None,
    }
}

/// The mapping of the executable of a process.
pub(super) fn main_mapping(snapshot: ProcessSnapshot<'_>) -> Option<Mapping> {
    let exe = snapshot.image.exe.as_deref()?;
    let of_exe = |region: &&process::Region| region.kind.file().is_some_and(|file| file.path() == exe);
    let region = snapshot.image.regions().iter().find(of_exe)?;
    Some(region.kind.file()?.mapping_for(region.offset))
}

fn labels(stack: &Stack<'_>) -> Vec<Label> {
    let mut labels: Vec<Label> = stack.pid.map(|pid| Label::num("pid", pid.into())).into_iter().collect();
    let (comm, added) = stack.labels.split_at(stack.labels.len().min(1));
    labels.extend_from_slice(comm);
    if let Some((tid, name)) = stack.thread {
        labels.extend([Label::num("tid", tid.into()), Label::str("thread", name)]);
    }
    labels.extend_from_slice(added);
    labels
}

fn label<'a>(labels: &'a [Label], key: &str) -> Option<&'a str> {
    labels.iter().find(|label| label.key == key).and_then(|label| match &label.value {
        LabelValue::Str(text) => Some(text.as_str()),
        LabelValue::Num(_) => None,
    })
}

/// Takes a stack into the ledger of its process.
fn add_process(ledger: &mut Ledger, entry: &Entry<'_>) {
    let Stack { pid, state, end, unknown, .. } = entry.stack;
    if let Some(pid) = pid {
        ledger.add_process(pid, state, unknown.is_none().then_some(end), &entry.sums);
    }
}

/// The root-most frame of a stack that is not complete, or is none.
fn synthetic_frame(stack: &Stack<'_>) -> Option<&'static str> {
    if let Some(unknown) = stack.unknown {
        return Some(unknown.frame());
    }
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
        WalkEnd::NoUserStack => (stack.kernel_places == 0).then_some("[kernel thread]"),
        // Where it was when the old program's memory went.
        WalkEnd::Exiting if stack.places.len() > stack.kernel_places => Some("[in exec]"),
        WalkEnd::Exiting => (stack.kernel_places == 0).then_some("[exiting]"),
    }
}

struct Assembly<'a> {
    builder: Builder,
    locations: HashMap<PlaceId, LocationId>,
    kernel: Option<MappingId>,
    stacks: &'a Stacks,
    names: &'a Names,
    /// Whether kernel frames are shown; a few are taken in any case.
    kernel_stacks: bool,
}

impl Assembly<'_> {
    /// The frames of a stack, leaf first, with those of its waker below.
    fn locations_of(&mut self, entry: &Entry<'_>, ledger: &mut Ledger) -> Vec<LocationId> {
        let mut locations = self.stack(&entry.stack, entry.sums.count, ledger);
        if let Some(waker) = &entry.waker {
            locations.push(self.builder.synthetic("[woken by]"));
            self.waker(waker, entry.sums.count, ledger, &mut locations);
        }
        locations
    }

    /// Who woke a thread: process, thread and stack, or an interrupt and the kernel's part that belongs to it.
    fn waker(&mut self, waker: &Stack<'_>, count: u64, ledger: &mut Ledger, to: &mut Vec<LocationId>) {
        let (tid, name) = waker.thread.unwrap_or((0, ""));
        let kernel = &waker.places[..waker.kernel_places];
        if tid == 0 && waker.end == WalkEnd::NoRegisters {
            to.push(self.builder.synthetic("[outside of this PID namespace]"));
            return;
        }
        let entered = kernel.iter().position(|place| self.is_named(place, &INTERRUPT_ENTRIES));
        if tid == 0 || entered.is_some() && waker.state == State::WakerInSoftirq {
            to.push(self.builder.synthetic("[interrupt]"));
            if self.kernel_stacks {
                let of_interrupt = entered.map_or(kernel.len(), |entered| entered + 1);
                let own = self.own_frames(kernel);
                for place in &kernel[own.min(of_interrupt)..of_interrupt] {
                    to.push(self.frame(*place, count, ledger));
                }
            }
            return;
        }
        let process = label(waker.labels, "comm").unwrap_or(name);
        to.push(self.builder.synthetic(&format!("process {process}")));
        to.push(self.builder.synthetic(&format!("thread {name}")));
        to.extend(self.stack(waker, count, ledger));
    }

    fn stack(&mut self, stack: &Stack<'_>, count: u64, ledger: &mut Ledger) -> Vec<LocationId> {
        let (kernel, user) = stack.places.split_at(stack.kernel_places);
        // Off-CPU, the kernel's stack begins with what took it down.
        let own = if stack.state == State::Sampled { 0 } else { self.own_frames(kernel) };
        let kernel = if self.kernel_stacks { &kernel[own..] } else { &[] };
        let mut locations = Vec::with_capacity(kernel.len() + user.len() + 1);
        for place in kernel.iter().chain(user) {
            locations.push(self.frame(*place, count, ledger));
        }
        if let Some(frame) = synthetic_frame(stack) {
            locations.push(self.builder.synthetic(frame));
        }
        locations
    }

    fn frame(&mut self, place: PlaceId, count: u64, ledger: &mut Ledger) -> LocationId {
        ledger.frames_named += if self.names.has(place) { count } else { 0 };
        ledger.frames_shown += count;
        self.location(place)
    }

    fn is_named(&self, place: &PlaceId, starts: &[&str]) -> bool {
        let mut lines = self.names.of(*place);
        lines.next().is_some_and(|line| starts.iter().any(|start| line.name.starts_with(start)))
    }

    /// How many of these kernel frames, leaf first, belong to the tracing of this very event.
    fn own_frames(&self, kernel: &[PlaceId]) -> usize {
        let is_own = |place: &PlaceId| self.is_named(place, &OWN_FRAMES);
        kernel.iter().take(MAX_OWN_FRAMES).rposition(is_own).map_or(0, |last| last + 1)
    }

    fn location(&mut self, id: PlaceId) -> LocationId {
        if let Some(location) = self.locations.get(&id) {
            return *location;
        }
        let names = self.names;
        let lines = names.of(id);
        let location = match self.stacks.places()[id as usize] {
            Place::Module { module, svma, offset, .. } => {
                let mapping = self.stacks.modules[module as usize].file.mapping_for(offset);
                let mapping = self.builder.mapping(mapping);
                let lines = self.lines(lines);
                self.builder.location(Some(mapping), svma.0, lines)
            }
            Place::Kernel { address, .. } => {
                let mapping = self.kernel_mapping();
                let lines = self.lines(lines);
                self.builder.location(Some(mapping), address, lines)
            }
            Place::Jit { address, .. } => {
                let mapping =
                    self.builder.mapping(Mapping { filename: "[jit]".to_owned(), ..Mapping::default() });
                let (address, lines) =
                    if lines.len() == 0 { (address.0, self.name("[jit]")) } else { (0, self.lines(lines)) };
                self.builder.location(Some(mapping), address, lines)
            }
            Place::Unknown { address } => {
                let lines = self.name("[unknown]");
                self.builder.location(None, address.0, lines)
            }
        };
        self.locations.insert(id, location);
        location
    }

    fn kernel_mapping(&mut self) -> MappingId {
        let builder = &mut self.builder;
        *self.kernel.get_or_insert_with(|| {
            builder.mapping(Mapping {
                start: Svma(KERNEL_START),
                limit: Svma(u64::MAX),
                file_offset: FileOffset(0),
                filename: "[kernel.kallsyms]".to_owned(),
                build_id: running_kernel(),
            })
        })
    }

    fn name(&mut self, name: &str) -> Vec<Line> {
        self.lines([Shown { name, system_name: name, ..Shown::default() }].into_iter())
    }

    fn lines<'n>(&mut self, lines: impl Iterator<Item = Shown<'n>>) -> Vec<Line> {
        let builder = &mut self.builder;
        let line = |line: Shown<'_>| Line {
            function: builder.function(Function {
                name: line.name.to_owned(),
                system_name: line.system_name.to_owned(),
                filename: line.file.to_owned(),
                start_line: line.start_line,
            }),
            line: line.line,
            column: line.column,
        };
        lines.map(line).collect()
    }
}

/// The build-id of the running kernel, from the notes that it shows.
fn running_kernel() -> Option<BuildId> {
    build_id_note(&std::fs::read("/sys/kernel/notes").ok()?)
}

/// The descriptor of the first GNU build-id note: `namesz, descsz, type = 3, "GNU\0"`, all padded to 4 bytes.
fn build_id_note(mut notes: &[u8]) -> Option<BuildId> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    loop {
        let (name_size, size, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let name = notes.get(12..)?.get(..name_size)?;
        let start = 12 + name_size.checked_next_multiple_of(4)?;
        let descriptor = notes.get(start..)?.get(..size)?;
        if kind == 3 && name == b"GNU\0" {
            return BuildId::new(descriptor).ok();
        }
        notes = notes.get(start + size.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_build_id_among_notes() {
        let note = |name: &[u8], kind: u32, descriptor: &[u8]| {
            let mut bytes = Vec::new();
            for word in [name.len() as u32, descriptor.len() as u32, kind] {
                bytes.extend(word.to_ne_bytes());
            }
            for part in [name, descriptor] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let mut notes = note(b"Xen\0", 3, b"abc");
        notes.extend(note(b"GNU\0", 3, &[1, 2, 3, 4]));
        assert_eq!(build_id_note(&notes).unwrap().to_string(), "01020304");
        for cut in 0..notes.len() {
            assert_eq!(build_id_note(&notes[..cut]), None, "{cut}");
        }
        assert_eq!(build_id_note(&[0xff; 64]), None);
    }
}
