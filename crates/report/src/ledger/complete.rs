//! The ledgers of a finished capture. The programs in the kernel count what they did, also for what no profile shows; the counts of
//! the recording tell what the profiles consist of.

use std::time::Duration;

use recording::{EventId, MissingStack, Mode, Recording, Settings, State, SymbolizedRecording};

use super::frames::FrameCounts;
use super::model::Ledger;
use super::running::{not_kept, running, without_stack};
use super::walks::{self, Walks};
use super::wall_clock::WallClock;
use crate::figures::{add, sum};
use crate::selection::{self, Entry, LockWaits, SCHEDULER};
use crate::stack_lines::StackLines;
use crate::wall_time::OnCpuTime;

/// The ledgers of all profiles of a recording: on-CPU, off-CPU, wall-clock, as far as they were taken.
pub(crate) fn complete(symbolized: &SymbolizedRecording) -> Vec<Ledger> {
    let recording = &symbolized.recording;
    let times = OnCpuTime::of(recording);
    let mut ledgers = without_content(recording);
    let lines = StackLines::new(recording, &symbolized.names);
    let mut buffer = Vec::new();
    for entry in selection::shown(recording) {
        let mut frames = None;
        for ledger in &mut ledgers {
            if !recording.settings.shows(ledger.mode, entry.event, entry.at.state) {
                continue;
            }
            let (has_sample, time_ns) = match ledger.mode {
                Mode::Wall => {
                    let time_ns = add_wall_time(ledger, &times, &entry);
                    (time_ns.is_some(), time_ns.unwrap_or_default())
                }
                mode => {
                    add_process(ledger, &entry);
                    (true, if mode == Mode::OffCpu { entry.time_ns } else { 0 })
                }
            };
            add_stack(ledger, &entry, time_ns);
            if has_sample {
                let frames = frames.get_or_insert_with(|| {
                    lines.fill(&entry, &mut buffer);
                    FrameCounts::of(&buffer, symbolized)
                });
                ledger.shown.add(*frames, entry.count);
                ledger.shown_ns.add(*frames, time_ns);
            }
        }
    }
    for ledger in ledgers.iter_mut().filter(|ledger| ledger.mode == Mode::Locks) {
        for waits in selection::lock_waits(recording) {
            lines.fill(&waits.entry, &mut buffer);
            let frames = FrameCounts::of(&buffer, symbolized);
            ledger.shown.add(frames, waits.entry.count);
            ledger.shown_ns.add(frames, waits.entry.time_ns);
            add_lock_waits(ledger, &waits, lines.is_let_go(&waits));
        }
    }
    for ledger in ledgers.iter_mut().filter(|ledger| ledger.mode.has_stacks()) {
        ledger.fetches = symbolized.names.outcome.fetches;
    }
    for wall in ledgers.iter_mut().filter_map(|ledger| ledger.wall_clock.as_mut()) {
        wall.add_between_samples(&times);
    }
    ledgers
}

/// Adds waits for a lock. `let_go`: they ended because a thread let go of it.
fn add_lock_waits(ledger: &mut Ledger, waits: &LockWaits<'_>, let_go: bool) {
    let entry = &waits.entry;
    add_stack(ledger, entry, entry.time_ns);
    add_process(ledger, entry);
    add(&mut ledger.lock_ns, entry.time_ns);
    add(&mut ledger.owners_seen, if waits.owner.is_some() { entry.count } else { 0 });
    add(&mut ledger.released, if let_go { entry.count } else { 0 });
}

/// The ledgers before anything is added from the counts that profiles show.
fn without_content(recording: &Recording) -> Vec<Ledger> {
    let settings = &recording.settings;
    let totals = Totals::of(recording);
    let mut ledgers = running(settings, &recording.accounting);
    for ledger in &mut ledgers {
        let mode = ledger.mode;
        let of_gate = totals.of_gate(settings, mode);
        ledger.samples = ledger.samples.saturating_sub(of_gate);
        ledger.elapsed = Duration::from_nanos(recording.span.duration_ns);
        let event = match mode {
            Mode::Locks => EventId::LOCKS,
            mode => mode.sampled_event().unwrap_or(SCHEDULER),
        };
        if let Some(event) = recording.event(event) {
            ledger.event.clone_from(&event.name);
        }
    }
    if settings.wall_profile
        && let [on_cpu, off_cpu, ..] = &ledgers[..]
    {
        let wall = wall_clock(recording, &totals, on_cpu, off_cpu);
        ledgers.push(wall);
    }
    for ledger in &mut ledgers {
        ledger.walks = Walks::default();
        (ledger.no_user_stack, ledger.frames) = (0, 0);
        if let Some(singles) = &recording.singles {
            // They are lost together: intervals only where there are any.
            let has_intervals = || singles.samples.iter().any(|single| single.event == SCHEDULER);
            if ledger.mode.sampled_event().is_some() || (ledger.mode == Mode::OffCpu && has_intervals()) {
                ledger.singles_lost = singles.lost;
            }
        }
    }
    ledgers
}

/// Sums over all counts of a state, by its number.
#[derive(Default)]
struct Totals {
    count: [u64; State::ALL.len()],
    gate_count: [u64; State::ALL.len()],
    gate_ns: [u64; State::ALL.len()],
    /// Samples of further events, by number.
    further_gate_count: [u64; EventId::MAX_FURTHER],
}

impl Totals {
    fn of(recording: &Recording) -> Self {
        let mut totals = Self::default();
        for entry in selection::all(recording) {
            let state = entry.at.state as usize;
            if let Some(number) = entry.event.further_number() {
                if let Some(count) = totals.further_gate_count.get_mut(number).filter(|_| entry.is_gate()) {
                    add(count, entry.count);
                }
            } else if entry.is_gate() {
                add(&mut totals.gate_count[state], entry.count);
                add(&mut totals.gate_ns[state], entry.time_ns);
            } else {
                add(&mut totals.count[state], entry.count);
            }
        }
        totals
    }

    /// What the agent's own work is of the samples of a mode.
    fn of_gate(&self, settings: &Settings, mode: Mode) -> u64 {
        match mode.sampled_event().and_then(EventId::further_number) {
            Some(number) => self.further_gate_count.get(number).copied().unwrap_or_default(),
            None => Self::sum(&self.gate_count, |state| settings.shows_state(mode, state)),
        }
    }

    fn sum(by_state: &[u64; State::ALL.len()], is_wanted: impl Fn(State) -> bool) -> u64 {
        sum(State::ALL.into_iter().filter(|state| is_wanted(*state)).map(|state| by_state[state as usize]))
    }
}

/// The ledger of all time, also of the states that are not asked for in the off-CPU profile.
fn wall_clock(recording: &Recording, totals: &Totals, on_cpu: &Ledger, off_cpu: &Ledger) -> Ledger {
    let (settings, accounting) = (&recording.settings, &recording.accounting);
    let only_here = |state: State| {
        settings.shows_state(Mode::Wall, state)
            && !settings.shows_state(Mode::OnCpu, state)
            && !settings.shows_state(Mode::OffCpu, state)
    };
    let mut wall = of_both(on_cpu, off_cpu);
    add(&mut wall.samples, Totals::sum(&totals.count, only_here));
    add(&mut wall.lost_memory_limit, not_kept(accounting, only_here));
    add(&mut wall.lost_no_memory, without_stack(accounting, only_here));
    // The profile does not show the process of a command before it executes the command.
    let of_gate = Totals::sum(&totals.gate_ns, State::is_time);
    let threads_ns = accounting.scheduler.lifetime_ns.saturating_sub(of_gate);
    wall.wall_clock = Some(WallClock { threads_ns, ..WallClock::default() });
    wall
}

/// What is missing from a profile of all time: what is missing from either of the profiles that it is made of.
pub(super) fn of_both(on_cpu: &Ledger, off_cpu: &Ledger) -> Ledger {
    let both = |of: fn(&Ledger) -> u64| sum([of(on_cpu), of(off_cpu)]);
    Ledger {
        mode: Mode::Wall,
        event: format!("{},{}", on_cpu.event, off_cpu.event),
        samples: both(|l| l.samples),
        lost_ring_full: both(|l| l.lost_ring_full),
        lost_map_full: both(|l| l.lost_map_full),
        lost_no_memory: both(|l| l.lost_no_memory),
        lost_memory_limit: both(|l| l.lost_memory_limit),
        lost_busy: both(|l| l.lost_busy),
        lost_unseen: both(|l| l.lost_unseen),
        outside_namespace: both(|l| l.outside_namespace),
        skipped_min_block: off_cpu.skipped_min_block,
        skipped_min_block_ns: off_cpu.skipped_min_block_ns,
        wakers_lost: off_cpu.wakers_lost,
        seams_lost: off_cpu.seams_lost,
        leaves_undecided: both(|l| l.leaves_undecided),
        deferred: both(|l| l.deferred),
        deferred_pending: both(|l| l.deferred_pending),
        unsent_of_process: both(|l| l.unsent_of_process),
        unsent_of_machine: both(|l| l.unsent_of_machine),
        unsent_ring_full: both(|l| l.unsent_ring_full),
        python_walks: std::array::from_fn(|end| sum([on_cpu.python_walks[end], off_cpu.python_walks[end]])),
        frames_walked: both(|l| l.frames_walked),
        memo_checked: both(|l| l.memo_checked),
        memo_differed: both(|l| l.memo_differed),
        memo_hits: both(|l| l.memo_hits),
        stacks_sent: both(|l| l.stacks_sent),
        requests_lost: both(|l| l.requests_lost),
        threads_lost: both(|l| l.threads_lost),
        // Rate, CPUs and throttling are those of the on-CPU profile; the rest is of the capture as a whole.
        ..on_cpu.clone()
    }
}

/// Adds samples to the figures of stacks. `time_ns`: what the profile shows of them, if it shows time.
fn add_stack(ledger: &mut Ledger, entry: &Entry<'_>, time_ns: u64) {
    let (samples, stack) = (entry.count, entry.at.stack);
    let (_, user) = stack.split();
    add(&mut ledger.stacks, 1);
    add(&mut ledger.frames, samples.saturating_mul(user.len() as u64));
    match stack.missing {
        Some(MissingStack::NotRunYet) => add(&mut ledger.not_run_yet, samples),
        Some(MissingStack::AsleepBefore) => add(&mut ledger.asleep_before, samples),
        Some(MissingStack::Gate) | None => {
            walks::add_end(&mut ledger.walks, &mut ledger.no_user_stack, stack.end, samples);
            walks::add_end(&mut ledger.walk_ns, &mut 0, stack.end, time_ns);
        }
    }
}

/// Adds samples to the figures of their process.
fn add_process(ledger: &mut Ledger, entry: &Entry<'_>) {
    let (state, stack) = (entry.at.state, entry.at.stack);
    if ledger.mode == Mode::OffCpu {
        add(&mut ledger.off_cpu_ns, entry.time_ns);
    }
    if let Some(pid) = entry.at.task.pid {
        let end = stack.missing.is_none().then_some(stack.end);
        ledger.by_process.entry(pid).or_default().add(state, end, entry.count, entry.time_ns);
    }
}

/// Adds the time of samples and returns it. `None`: there is no time, and so no sample in the profile.
fn add_wall_time(ledger: &mut Ledger, times: &OnCpuTime, entry: &Entry<'_>) -> Option<u64> {
    let time = times.of_entry(entry).filter(|time| time.is_any());
    if let (Some(time), Some(wall)) = (time, &mut ledger.wall_clock) {
        wall.add(time);
    }
    time.map(|time| sum([time.time_ns, time.runnable_ns]))
}
