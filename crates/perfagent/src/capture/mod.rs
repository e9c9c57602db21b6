//! One capture, from the first descriptor to the finished profile. It lives on a thread of its own, which polls.
//!
//! The order of a round: what happened to processes, then stacks never seen before (their process's image must be
//! known by then), then tables that became ready, then everything that changed goes into the kernel.

mod accounts;
mod asleep;
mod assemble;
mod carry_over;
mod content;
mod cpus;
mod deferred;
mod figures;
mod finish;
mod first_tables;
mod interned;
mod nameless;
mod names;
mod outcome;
mod priority;
mod roots;
mod setup;
mod shared;
mod shown;
mod stacks;
mod sums;
mod tables;
mod unwinders;

pub(crate) use outcome::Outcome;
pub(crate) use shared::Shared;

#[cfg(test)]
pub(crate) use figures::incomplete;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use events::{Set, SideBand};
use kernel::{Frame, Kernel, LifeCounts, Message, RawStack, StackMessage, State, WalkEnd};
use metrics::endpoint::Server;
use profile::Avma;

use self::deferred::{Deferred, Waiting, Walked};
use self::names::Namer;
use self::stacks::Stacks;
use self::tables::Tables;
use self::unwinders::Unwinders;
use crate::child::ChildHandle;
use crate::processes::{Arrival, Arrivals, Losses, Processes, monotonic_ns};
use crate::report::{Ended, Warning, WarningKind};
use crate::usage::Usage;
use crate::{Config, Ledger, Targets};

/// Between two rounds while processes come and go, and while nothing happens.
const BUSY: Duration = Duration::from_millis(10);
const CALM: Duration = Duration::from_millis(50);
/// Between two renewals of the allowance of a process that waits for tables.
const RENEW_EVERY: Duration = Duration::from_millis(50);
/// Between two deliveries of new places to be named.
const NAMES_EVERY: Duration = Duration::from_millis(500);
/// Time for walks in user space in one round: mappings and tables of others wait meanwhile.
const WALKS_PER_ROUND: Duration = Duration::from_millis(5);
/// Time for those that are left at the end.
const LAST_WALKS: Duration = Duration::from_secs(1);
/// Between two updates of the running ledger.
const LEDGER_EVERY: Duration = Duration::from_millis(200);
/// So many keys of sums are new when sums are taken so that those of ended processes can be let go.
const KEYS_BEFORE_RELEASE: u64 = 8192;
/// Between two looks for what is not needed any more.
const PRUNE_EVERY: Duration = Duration::from_secs(5);

/// Whether a stack is of a thread that is not on a CPU.
#[derive(Clone, Copy)]
enum Off {
    No,
    Yes,
}

impl From<State> for Off {
    fn from(state: State) -> Self {
        if state == State::Sampled { Self::No } else { Self::Yes }
    }
}

/// A running capture. Made by [`Capture::start`] in `setup`.
pub(crate) struct Capture {
    config: Config,
    shared: Arc<Shared>,
    kernel: Kernel,
    /// Figures of the scheduler and counters, if they are taken.
    figures: Option<figures::Figures>,
    /// The metrics endpoint, if there is one.
    server: Option<Server>,
    /// The sampling events, if an on-CPU profile is taken.
    events: Option<Set>,
    side_band: SideBand,
    /// What came from the programs and the side band, and was not handled yet.
    arrivals: Arrivals,
    cpus: cpus::Cpus,
    processes: Processes,
    tables: Tables,
    unwinders: Unwinders,
    stacks: Stacks,
    namer: Namer,
    command: Option<ChildHandle>,
    first_target: Option<u32>,
    warnings: Vec<Warning>,
    /// Stacks that wait for tables, to be walked here.
    deferred: Waiting,
    /// Processes that sent such stacks lately; their allowance is renewed with their mappings.
    deferring: HashSet<u32>,
    /// When the allowances of those that wait for tables were last renewed.
    renewed: Instant,
    /// Threads that were asleep at the start, and are still to be looked at.
    asleep: Vec<Message>,
    /// Begin of the capture, CLOCK_MONOTONIC.
    start_ns: u64,
    /// Ends of the walks made here, by [`Off`] and number of [`WalkEnd`].
    deferred_ends: [[u64; WalkEnd::ALL.len()]; 2],
    /// When places were last handed over to be named.
    named: Instant,
    /// Distinct stacks since the sums were last taken.
    undrained: u64,
    ledgers: Vec<Ledger>,
    started: SystemTime,
    usage: Usage,
}

impl Capture {
    /// Rounds until the other end of `stop` is dropped or says so, or all targets have ended.
    pub(crate) fn run(mut self, stop: &Receiver<()>) -> Outcome {
        let mut ended_by = Ended::Stopped;
        let mut next_ledger = Instant::now();
        let mut next_prune = Instant::now() + PRUNE_EVERY;
        let mut next_metrics = Instant::now();
        let mut next_cpus = Instant::now();
        let mut busy_until = Instant::now() + Duration::from_secs(1);
        self.meet_sleepers();
        loop {
            let pause = if Instant::now() < busy_until { BUSY } else { CALM };
            match stop.recv_timeout(pause) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.round(false) {
                busy_until = Instant::now() + Duration::from_secs(1);
            }
            if !matches!(self.config.targets, Targets::System) && self.processes.alive() == 0 {
                ended_by = Ended::TargetsExited;
                break;
            }
            if Instant::now() >= next_cpus {
                next_cpus = Instant::now() + cpus::EVERY;
                self.follow_cpus();
            }
            if Instant::now() >= next_ledger {
                next_ledger = Instant::now() + LEDGER_EVERY;
                self.update_ledgers();
                self.shared.set_ledgers(&self.ledgers);
            }
            if Instant::now() >= next_metrics || self.shared.awaits_metrics() {
                next_metrics = Instant::now() + figures::EVERY;
                if self.shared.are_metrics_wanted() {
                    self.share_metrics(self.elapsed());
                } else {
                    self.gather_metrics();
                }
                if self.server.is_some() {
                    self.share_health();
                }
            }
            if Instant::now() >= next_prune {
                next_prune = Instant::now() + PRUNE_EVERY;
                self.processes.prune();
                if self.undrained > KEYS_BEFORE_RELEASE {
                    self.drain();
                }
                self.tables.free_unused(&mut self.kernel);
                self.unwinders.release_unused();
                self.processes.touch(std::mem::take(&mut self.deferring));
                sys::memory::give_back_free_pages();
            }
        }
        if self.config.off_cpu_profile {
            // Room for the sums of all threads that sleep now.
            self.drain();
        }
        self.leave_cpus();
        let disabled = self.events.as_mut().map_or(Ok(()), Set::disable);
        let end_ns = monotonic_ns();
        let stopped = self.figures.as_mut().map_or(Ok(()), figures::Figures::disable);
        let left = self.kernel.leave_threads(end_ns);
        let duration = Duration::from_nanos(end_ns - self.start_ns);
        if let Err(error) = disabled {
            self.warn(error.to_string(), "");
        }
        if let Err(error) = stopped {
            self.warn(error.to_string(), "");
        }
        self.checked(left);
        self.server = None;
        self.shared.end(ended_by);
        self.finish(ended_by, duration)
    }

    /// One round. Whether processes came, went or changed.
    fn round(&mut self, last: bool) -> bool {
        let mut records = Vec::new();
        let complete_ns = if last {
            self.side_band.drain_all(&mut records);
            u64::MAX
        } else {
            self.side_band.drain(&mut records)
        };
        let messages = self.kernel.receive();
        let messages = self.checked(messages).unwrap_or_default();
        self.look_for_losses();
        self.arrivals.add(records, complete_ns, messages);
        let (mut asked, mut lives) = (false, false);
        while let Some(arrival) = self.arrivals.next() {
            let message = match arrival {
                Arrival::Mapping(_, mmap) => {
                    lives |= self.processes.mapped(&mmap);
                    continue;
                }
                Arrival::Message(message) => message,
            };
            match message {
                Message::Life(life) => {
                    lives |= self.processes.follow(&life);
                    self.processes.take_released().for_each(|pid| self.tables.forget(pid));
                }
                Message::Process { pid, waker_only } => {
                    asked = true;
                    self.processes.asked_for(pid, waker_only);
                }
                Message::Woken { hash, blocked, waker } => {
                    self.undrained += 1;
                    self.stacks.book.enter_pair(hash, blocked, waker);
                }
                Message::Stack(stack) => self.take_stack(stack),
                Message::Raw(raw) => {
                    asked = true;
                    self.undrained += u64::from(raw.stack.hash != 0);
                    self.deferring.insert(raw.stack.pid);
                    if let Some(oldest) = self.deferred.push(raw) {
                        self.walk_deferred(oldest, false);
                    }
                }
                _ => {}
            }
        }
        let ready = self.tables.install_finished(&mut self.kernel, Duration::ZERO);
        let busy = asked || lives || !ready.is_empty() || self.tables.pending() > 0;
        self.processes.touch(ready);
        if !self.deferring.is_empty() && self.renewed.elapsed() >= RENEW_EVERY {
            self.renewed = Instant::now();
            let waiting = self.tables.awaited_by();
            self.processes.touch(self.deferring.extract_if(|pid| waiting.contains(pid)));
        }
        self.processes.read_again();
        let carried = carry_over::carry_over(&mut self.processes, &mut self.kernel, &mut self.tables);
        self.checked(carried);
        // What there is no time for waits for the next round; at the end it is recorded as far as it was walked.
        let deadline = Instant::now() + if last { LAST_WALKS } else { WALKS_PER_ROUND };
        for deferred in self.deferred.take() {
            if Instant::now() >= deadline {
                if last {
                    let end = deferred.raw.stack.end;
                    self.record_deferred(deferred.raw, Walked { frames: Vec::new(), end });
                } else {
                    self.deferred.put_back(deferred);
                }
                continue;
            }
            let wait = !last && deferred.is_patient();
            self.walk_deferred(deferred, wait);
        }
        if self.undrained > u64::from(self.kernel.stack_capacity()) / 2 {
            self.drain();
        }
        if self.named.elapsed() >= NAMES_EVERY {
            self.named = Instant::now();
            self.namer.send_new(&self.stacks);
        }
        busy
    }

    /// Finds out what was lost of the lives of processes, and reads what that may concern.
    fn look_for_losses(&mut self) {
        let losses = Losses::new(self.life_counts(), self.side_band.counts());
        if self.processes.take_losses(losses) {
            let recorded = self.kernel.recorded_processes();
            if let Some(recorded) = self.checked(recorded) {
                self.processes.compare(&recorded);
                self.processes.read_again();
            }
        }
    }

    fn life_counts(&mut self) -> LifeCounts {
        let counts = self.kernel.life_counts();
        self.checked(counts).unwrap_or_default()
    }

    /// Takes in a stack at its first sight.
    fn take_stack(&mut self, stack: StackMessage) {
        self.undrained += 1;
        // Of a process that has just ended the programs do not know the image any more: it is the last one.
        let has_ended = stack.image == 0 && (stack.state == State::OnCpu || stack.end == WalkEnd::Exiting);
        let snapshot = self.processes.at(stack.pid, if has_ended { u64::MAX } else { stack.image });
        if stack.end == WalkEnd::TableNotReady
            && let Some(snapshot) = snapshot
            && let Some(frame) = stack.user.last()
            && let Some(region) = snapshot.image.find(Avma(frame.pc - u64::from(!frame.exact)))
            && let Some(file) = region.kind.file()
        {
            self.tables.hit(file);
            // The frames further out are likely to need those.
            snapshot.image.regions().iter().for_each(|region| self.tables.request(stack.pid, region));
        }
        self.stacks.enter(&stack, snapshot, false);
    }

    /// Walks a stack that crossed as it is, or lets it wait for its tables.
    fn walk_deferred(&mut self, deferred: Deferred, wait: bool) {
        let raw = &deferred.raw;
        let Some(snapshot) = self.processes.at(raw.stack.pid, raw.stack.image) else {
            if wait {
                self.deferred.put_back(deferred);
            } else {
                self.record_deferred(
                    deferred.raw,
                    Walked { frames: Vec::new(), end: WalkEnd::TableNotReady },
                );
            }
            return;
        };
        match deferred::walk(raw, snapshot.image, &mut self.unwinders, &mut self.tables, &self.kernel, wait) {
            // The code may be in a mapping that is still to be read.
            Some(walked) if walked.end == WalkEnd::NoMapping && wait && deferred.is_fresh() => {
                self.deferred.put_back(deferred);
            }
            Some(walked) => self.record_deferred(deferred.raw, walked),
            None => self.deferred.put_back(deferred),
        }
    }

    fn record_deferred(&mut self, raw: RawStack, walked: Walked) {
        self.deferred_ends[Off::from(raw.stack.state) as usize][walked.end as usize] += 1;
        if walked.end != WalkEnd::Root {
            let pcs: Vec<u64> = walked.frames.iter().map(|frame| frame.pc).collect();
            tracing::debug!(target: "perfagent", pid = raw.stack.pid, end = ?walked.end, bytes = raw.len(), "deferred walk {pcs:x?}");
        }
        let mut stack = raw.stack;
        if walked.frames.is_empty() {
            stack.user = vec![Frame { pc: raw.pc, exact: true, by_frame_pointer: false }];
        } else {
            stack.user = walked.frames;
        }
        stack.end = walked.end;
        let snapshot = self.processes.at(stack.pid, stack.image);
        if stack.hash == 0 {
            self.stacks.enter_single(&stack, snapshot);
        } else {
            self.stacks.enter(&stack, snapshot, true);
        }
    }

    fn drain(&mut self) {
        let book = &mut self.stacks.book;
        let drained = self.kernel.drain(|hash, sums| book.add(hash, sums));
        if self.checked(drained).is_some() {
            let processes = &self.processes;
            let mut ends = HashMap::new();
            self.stacks.book.release(|pid, image| processes.may_record(pid, image, &mut ends));
        }
        self.undrained = 0;
    }

    /// The value, or none after a warning: a capture goes on with what works.
    fn checked<T>(&mut self, result: Result<T, kernel::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.warn(error.to_string(), "profile fewer processes at a time");
                None
            }
        }
    }

    fn warn(&mut self, message: String, hint: &str) {
        if self.warnings.iter().all(|warning| warning.message != message) && self.warnings.len() < 64 {
            let warning = match hint {
                "" => Warning::bare(WarningKind::Capture, message),
                hint => Warning::new(WarningKind::Capture, message, hint),
            };
            self.warnings.push(warning);
        }
    }
}
