//! Stacks and sums as they arrive from the kernel side, on their way into the recording.

use std::collections::HashMap;

use kernel::{CodeMessage, Event, Kernel, LockMessage, RawStack, SampledAt, StackMessage, State, WalkEnd};
use profile::Avma;
use recording::{Builder, EventId, Key, Limits, LockKey, MissingStack, Role, StackSums};

use super::held_stacks::HeldStacks;
use super::python_stacks::PythonStacks;
use super::resolver::{Gate, Resolver};
use super::shared_locks::SharedLocks;
use super::user_walks::{UserWalks, WalkContext};
use super::{convert, settings};
use crate::Config;
use crate::processes::{ProcessSnapshot, Processes};
use crate::timeline::Timeline;
use crate::unwinding::{TableStore, Walked};

/// The event of off-CPU intervals.
pub(super) const SCHEDULER: EventId = EventId(1);

/// The event that takes a stack.
fn event_of(stack: &StackMessage) -> EventId {
    if matches!(stack.state, State::Sampled | State::Freed) { convert::event(stack.event) } else { SCHEDULER }
}

/// Takes in stacks and sums.
pub(super) struct Intake {
    pub(super) builder: Builder,
    pub(super) resolver: Resolver,
    /// The perf.data file, if one is asked for.
    pub(super) timeline: Option<Timeline>,
    /// Stacks that are walked in user space.
    pub(super) walks: UserWalks,
    /// Stacks with frames in files that are still to be opened.
    held: HeldStacks,
    /// Distinct stacks since the sums were last taken.
    undrained: u64,
    /// Allocations are recorded: the innermost frame is the allocator's own, and objects that are freed come under a key that follows from
    /// that of their allocation.
    allocations: bool,
    /// Single samples are recorded, and single intervals off CPU.
    single_samples: bool,
    single_intervals: bool,
    /// Single samples lost in earlier intervals.
    samples_lost_before: u64,
    /// Waits for locks are recorded.
    records_locks: bool,
    /// Of threads that slept at the start: the key of the stack of the owner of the lock that a thread waits for, by the key of its own.
    owners_asleep: HashMap<u64, u64>,
    shared_locks: SharedLocks,
}

impl Intake {
    pub(super) fn new(config: &Config, gate: Option<Gate>, python: Option<PythonStacks>) -> Self {
        let limits = Limits::of_bytes(usize::try_from(config.max_memory_bytes).unwrap_or(usize::MAX));
        let builder = Builder::new(limits).with_events(&settings::events(config));
        Self {
            builder: if config.single_samples || config.single_intervals {
                builder.with_single_samples()
            } else {
                builder
            },
            resolver: Resolver::new(config, gate, python),
            timeline: None,
            walks: UserWalks::default(),
            held: HeldStacks::default(),
            undrained: 0,
            allocations: config.heap.is_some(),
            single_samples: config.single_samples,
            single_intervals: config.single_intervals,
            samples_lost_before: 0,
            records_locks: config.locks,
            owners_asleep: HashMap::new(),
            shared_locks: SharedLocks::default(),
        }
    }

    /// Takes in a stack at its first sight.
    pub(super) fn take_stack(&mut self, stack: &StackMessage, context: &mut WalkContext<'_>) {
        self.undrained += 1;
        self.take_or_hold(stack, context, true);
    }

    fn take_or_hold(&mut self, stack: &StackMessage, context: &mut WalkContext<'_>, may_hold: bool) {
        // The programs no longer know the program of a process that has just ended: it was the last one.
        let has_ended = stack.exec_id == 0 && (stack.state == State::OnCpu || stack.end == WalkEnd::Exiting);
        let at_ns = if has_ended { u64::MAX } else { stack.exec_id };
        let snapshot = context.processes.histories().at(stack.pid, at_ns);
        if may_hold && snapshot.is_some_and(|snapshot| self.held.wants(stack, snapshot.image)) {
            self.held.push(stack.clone());
            return;
        }
        if stack.end == WalkEnd::TableNotReady
            && let Some(snapshot) = snapshot
        {
            request_tables(stack, snapshot, context.tables);
        }
        self.enter(stack, snapshot, false, None);
    }

    /// Takes in a code object of a program in Python.
    pub(super) fn take_code(&mut self, code: CodeMessage, processes: &Processes) {
        if let Some(python) = &mut self.resolver.python {
            let snapshot = processes.histories().at(code.pid, code.exec_id);
            python.add_code(code, snapshot);
        }
    }

    /// Waits a moment until it is known where the interpreters of these processes keep their frames.
    pub(super) fn find_pythons(
        &mut self,
        pids: &[u32],
        processes: &Processes,
        kernel: &mut Kernel,
    ) -> Result<(), kernel::Error> {
        match &mut self.resolver.python {
            Some(python) => python.find(pids, processes, kernel),
            None => Ok(()),
        }
    }

    /// Adds to the stacks of threads of one process that sleep their functions in Python.
    pub(super) fn read_python_asleep(
        &mut self,
        pid: u32,
        stacks: &mut [StackMessage],
        processes: &Processes,
    ) {
        if let (Some(python), Some(first)) = (&mut self.resolver.python, stacks.first()) {
            let snapshot = processes.histories().at(first.pid, first.exec_id);
            python.read_asleep(pid, stacks, snapshot);
        }
    }

    /// Takes in a stack that was sent unwalked.
    pub(super) fn take_raw(&mut self, raw: RawStack, context: &mut WalkContext<'_>) {
        self.undrained += u64::from(raw.stack.hash != 0);
        let oldest = self.walks.add(raw);
        let walked = oldest.and_then(|oldest| self.walks.walk(oldest, context, false));
        if let Some((raw, walked)) = walked {
            self.record_walked(raw, walked, context.processes);
        }
    }

    /// Takes in that sums under one key are of intervals that a waker ended.
    pub(super) fn take_pair(&mut self, hash: u64, blocked: u64, waker: u64) {
        self.undrained += 1;
        let state = convert::state(State::of_key(hash));
        self.builder.enter_pair(hash, SCHEDULER, state, blocked, waker);
    }

    /// Whether waits for locks are recorded.
    pub(super) fn records_locks(&self) -> bool {
        self.records_locks
    }

    /// Takes in who holds locks for which threads sleep, by the keys of both stacks.
    pub(super) fn add_owners_asleep(&mut self, owners: HashMap<u64, u64>) {
        self.owners_asleep.extend(owners);
    }

    /// Takes in what waits for a lock have in common whose sums come under one key.
    pub(super) fn take_lock(&mut self, message: &LockMessage, processes: &Processes) {
        self.undrained += 1;
        let snapshot = processes.histories().at(message.pid, message.exec_id);
        let of_length = message.bucket.is_some();
        let place = snapshot.filter(|_| !of_length).and_then(|snapshot| {
            if message.kind.is_of_kernel() {
                return self.resolver.kernel_lock_place(&mut self.builder, message.address);
            }
            let shared = if message.shared {
                self.shared_locks.find(message.pid, message.exec_id, message.address)
            } else {
                None
            };
            match shared {
                Some(place) => self.resolver.shared_lock_place(&mut self.builder, &place),
                None => self.resolver.lock_place(&mut self.builder, message.pid, message.address, snapshot),
            }
        });
        let mut attached = convert::lock(message);
        if let Some(owner) =
            self.owners_asleep.get(&message.stack).filter(|_| message.owner.is_none() && !of_length)
        {
            attached.links.push((Role::Owner, *owner));
        }
        let key = LockKey {
            event: convert::event(message.event),
            state: recording::State::Blocked,
            stack: message.stack,
            pid: message.pid,
            exec_id: message.exec_id,
            attached,
            place,
        };
        self.builder.enter_lock(message.hash, key);
    }

    /// Takes in a thread that slept when the capture began. `walked`: its stack was walked while it still slept.
    pub(super) fn take_sleeper(
        &mut self,
        mut stack: StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        walked: bool,
    ) {
        if walked {
            if !stack.end.is_no_walk() {
                self.walks.count(event_of(&stack), stack.end);
            }
            self.enter(&stack, snapshot, false, None);
        } else {
            stack.kernel.clear();
            stack.user.clear();
            stack.attached.interpreted.clear();
            stack.end = WalkEnd::Root;
            self.enter(&stack, snapshot, false, Some(MissingStack::AsleepBefore));
        }
    }

    /// Enters the key of a stack into the recording. `once`: the key is of a single interval. If a limit of the recording is reached, the
    /// key stays unknown, and sums under it are counted as not kept.
    fn enter(
        &mut self,
        stack: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        once: bool,
        missing: Option<MissingStack>,
    ) {
        if self.allocations && stack.state == State::Sampled {
            return self.enter_allocation(stack, snapshot, missing);
        }
        match &mut self.timeline {
            Some(timeline) if self.resolver.is_gate(stack) => timeline.leave_out(stack),
            Some(timeline) => timeline.stack(stack, once),
            None => {}
        }
        if let Some(id) = self.resolver.resolve(&mut self.builder, stack, snapshot, missing) {
            let event = event_of(stack);
            let key = Key { event, stack: id, pid: stack.pid, exec_id: stack.exec_id, once };
            match convert::attached(&stack.attached) {
                None => self.builder.enter(stack.hash, key),
                Some(attached) => self.builder.enter_attached(stack.hash, key, &attached),
            }
        }
    }

    /// Enters the keys of a stack that allocates: of all its objects, and of those of them that are freed.
    fn enter_allocation(
        &mut self,
        stack: &StackMessage,
        snapshot: Option<ProcessSnapshot<'_>>,
        missing: Option<MissingStack>,
    ) {
        let mut stack = stack.clone();
        // The function that is probed would be the innermost one of all stacks.
        if stack.user.len() > 1 && stack.user.first().is_some_and(|frame| frame.exact) {
            stack.user.remove(0);
        }
        for (state, hash) in [(State::Sampled, stack.hash), (State::Freed, State::freed_key(stack.hash))] {
            stack.state = state;
            if let Some(id) = self.resolver.resolve(&mut self.builder, &stack, snapshot, missing) {
                let (pid, exec_id) = (stack.pid, stack.exec_id);
                self.builder
                    .enter(hash, Key { event: EventId::sampled(0), stack: id, pid, exec_id, once: false });
            }
        }
    }

    /// Walks the stacks that wait, as far as time allows. At the end (`last`), stacks for which there is no time are recorded as far as
    /// the kernel walked them.
    pub(super) fn walk_waiting(&mut self, context: &mut WalkContext<'_>, last: bool) {
        for stack in self.held.take_ready(context.processes, last) {
            self.take_or_hold(&stack, context, false);
        }
        let (round, due) = self.walks.begin_round(context.tables, last);
        for deferred in due {
            if let Some((raw, walked)) = self.walks.walk_in_round(deferred, &round, context) {
                self.record_walked(raw, walked, context.processes);
            }
        }
    }

    fn record_walked(&mut self, mut raw: RawStack, walked: Walked, processes: &Processes) {
        let event = event_of(&raw.stack);
        self.walks.end(&mut raw, walked, event);
        let stack = raw.stack;
        let snapshot = processes.histories().at(stack.pid, stack.exec_id);
        if stack.hash == 0 {
            self.add_single(&stack, raw.at, raw.value, snapshot);
        } else {
            self.enter(&stack, snapshot, true, None);
        }
    }

    /// A sample whose sums no key stands for.
    fn add_single(
        &mut self,
        stack: &StackMessage,
        at: SampledAt,
        value: u64,
        snapshot: Option<ProcessSnapshot<'_>>,
    ) {
        if let Some(timeline) = &mut self.timeline {
            timeline.walked(stack, at);
        }
        match self.resolver.resolve(&mut self.builder, stack, snapshot, None) {
            Some(id) => {
                let one = StackSums { count: 1, value, waited: 0 };
                self.builder.add_single(event_of(stack), id, one);
                let sample = convert::walked_occurrence(stack, at, value);
                self.builder.add_walked_sample(event_of(stack), id, sample);
            }
            None => self.builder.count_not_kept(event_of(stack), convert::state(stack.state)),
        }
    }

    /// Takes the sums that the kernel side holds, and drops keys that cannot come again.
    pub(super) fn drain(&mut self, kernel: &mut Kernel, processes: &Processes) -> Result<(), kernel::Error> {
        self.undrained = 0;
        let builder = &mut self.builder;
        kernel.drain(|hash, sums| add(builder, hash, sums))?;
        // While the keys of ended programs are still known.
        self.take_samples(kernel)?;
        let builder = &mut self.builder;
        let mut ends = HashMap::new();
        builder.release(|pid, exec_id| processes.histories().may_record(pid, exec_id, &mut ends));
        if let Some(timeline) = &mut self.timeline {
            timeline.drained(|pid, exec_id| processes.histories().may_record(pid, exec_id, &mut ends));
        }
        Ok(())
    }

    /// Takes the sums and counters of the interval that ends.
    pub(super) fn cut(&mut self, kernel: &mut Kernel) -> Result<kernel::Cut, kernel::Error> {
        self.undrained = 0;
        let builder = &mut self.builder;
        builder.begin_cut();
        let cut = kernel.cut(|hash, sums| add(builder, hash, sums))?;
        builder.set_seam(cut.side_changes);
        builder.count_lost_samples(cut.singles_lost());
        self.samples_lost_before += cut.singles_lost();
        // The next round tells if this fails.
        _ = self.take_samples(kernel);
        if let Some(timeline) = &mut self.timeline {
            timeline.set_seam(cut.side_changes);
            timeline.drained(|_, _| true);
        }
        Ok(cut)
    }

    /// Takes all sums, when no program runs any more.
    pub(super) fn drain_all(&mut self, kernel: &mut Kernel) -> Result<(), kernel::Error> {
        let builder = &mut self.builder;
        kernel.drain_all(|hash, sums| add(builder, hash, sums))?;
        let lost = kernel.singles_lost();
        self.builder.count_lost_samples(lost.saturating_sub(self.samples_lost_before));
        self.take_samples(kernel)
    }

    /// Takes in single samples. Their stacks may come later.
    pub(super) fn take_samples(&mut self, kernel: &Kernel) -> Result<(), kernel::Error> {
        if self.single_samples || self.single_intervals || self.timeline.is_some() {
            for sample in kernel.take_samples()? {
                let is_recorded = match sample.event {
                    Event::Scheduler => self.single_intervals,
                    _ => self.single_samples,
                };
                if is_recorded {
                    self.builder.add_sample(sample.hash, convert::occurrence(&sample));
                }
                if let Some(timeline) = &mut self.timeline {
                    timeline.sample(sample);
                }
            }
        }
        Ok(())
    }

    /// Distinct stacks since the sums were last taken.
    pub(super) fn undrained(&self) -> u64 {
        self.undrained
    }

    /// Whether stacks wait for tables or files.
    pub(super) fn has_waiting(&self) -> bool {
        !self.walks.none_waits() || !self.held.is_empty()
    }
}

/// Adds sums of the kernel side under their key.
fn add(builder: &mut Builder, hash: u64, sums: kernel::Sums) {
    let state = State::of_key(hash);
    builder.add(hash, convert::event_of_key(hash), convert::state(state), convert::sums(sums));
}

/// The walk ended because a table was missing: asks for it, and for those that frames further out are likely to need.
fn request_tables(stack: &StackMessage, snapshot: ProcessSnapshot<'_>, tables: &mut TableStore) {
    if let Some(frame) = stack.user.last()
        && let Some(region) = snapshot.image.find(Avma(frame.pc - u64::from(!frame.exact)))
        && let Some(file) = region.file()
    {
        tables.hit(file);
        snapshot.image.regions().iter().for_each(|region| tables.request(region));
    }
}

#[cfg(test)]
mod tests;
