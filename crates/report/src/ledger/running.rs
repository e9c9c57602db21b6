//! The ledgers of a capture that goes on: what the programs in the kernel have counted so far, for each profile.

use std::time::Duration;

use recording::{
    Accounting, Counters, Event, EventAccounting, EventId, Mode, Settings, State, Unit, WalkEnd,
};

use super::model::Ledger;
use super::walks;
use crate::figures::{add, sum};

/// The events as the ledger names them.
const CPU_CLOCK: &str = "software/cpu-clock";
const HEAP: &str = "heap";
const SCHEDULER: &str = "sched:sched_switch";
const FUTEX: &str = "futex";

/// Positions in [`Accounting::deferred_walks`].
const OF_SAMPLES: usize = 0;
const OF_INTERVALS: usize = 1;

/// The ledgers of the profiles that are taken, the on-CPU profile first; without a profile, the one of scheduler statistics. The
/// ledger of a wall-clock profile is made at the end.
#[must_use]
pub fn running(settings: &Settings, accounting: &Accounting) -> Vec<Ledger> {
    let modes = settings.modes().into_iter().filter(|mode| *mode != Mode::Wall);
    let mut ledgers: Vec<Ledger> = modes.map(|mode| of_mode(mode, settings, accounting)).collect();
    if ledgers.is_empty() {
        ledgers.push(of_mode(Mode::Pmu, settings, accounting));
    }
    ledgers
}

/// Occurrences that a profile would show, but that exceeded a limit of the recording.
pub(super) fn not_kept(accounting: &Accounting, is_shown: impl Fn(State) -> bool) -> u64 {
    of_states(&accounting.not_kept, is_shown)
}

/// Occurrences that a profile would show, but whose stack never came.
pub(super) fn without_stack(accounting: &Accounting, is_shown: impl Fn(State) -> bool) -> u64 {
    of_states(&accounting.without_stack, is_shown)
}

fn of_states(counts: &[u64; State::ALL.len()], is_shown: impl Fn(State) -> bool) -> u64 {
    let shown = State::ALL.into_iter().filter(|state| is_shown(*state));
    sum(shown.map(|state| counts[state as usize]))
}

fn of_mode(mode: Mode, settings: &Settings, accounting: &Accounting) -> Ledger {
    let mut ledger = of_whole(settings, accounting);
    ledger.mode = mode;
    let (sampler, scheduler) = (&accounting.sampler, &accounting.scheduler);
    match mode {
        Mode::FurtherEvent(_) => {
            if let Some(event) = settings.event_of(mode) {
                take_event(&mut ledger, event);
            }
            of_sampled(&mut ledger, settings);
            let number = mode.sampled_event().and_then(EventId::further_number);
            if let Some(of_event) = number.and_then(|number| accounting.further.get(number)) {
                of_further(&mut ledger, of_event, scheduler);
            }
            return ledger;
        }
        Mode::OnCpu | Mode::Event | Mode::Heap => {
            match &settings.event {
                _ if mode == Mode::Heap => {
                    HEAP.clone_into(&mut ledger.event);
                    (ledger.heap, ledger.heap_windows) = (accounting.heap.clone(), accounting.heap_windows);
                }
                Some(event) => take_event(&mut ledger, event),
                None => {
                    ledger.event = CPU_CLOCK.to_owned();
                    ledger.rate_hz = settings.sample_rate_hz;
                }
            }
            of_sampled(&mut ledger, settings);
            take(&mut ledger, sampler);
            take_losses(&mut ledger, sampler, scheduler);
            add_deferred_samples(&mut ledger, &accounting.deferred_walks[OF_SAMPLES]);
            ledger.throttled = throttled(settings, settings.event.as_ref(), accounting.throttled_ns);
            ledger.not_run = accounting.not_run.periods;
        }
        Mode::OffCpu => {
            ledger.event = SCHEDULER.to_owned();
            ledger.unwind.clone_from(&settings.unwind);
            take(&mut ledger, scheduler);
            take_losses(&mut ledger, scheduler, sampler);
            add_deferred(&mut ledger, &accounting.deferred_walks[OF_INTERVALS]);
            add(&mut ledger.wakers_lost, accounting.wakers_not_kept);
        }
        Mode::Locks => {
            ledger.event = FUTEX.to_owned();
            ledger.unwind.clone_from(&settings.unwind);
            take(&mut ledger, scheduler);
            take_losses(&mut ledger, scheduler, sampler);
            add_deferred(&mut ledger, &accounting.deferred_walks[OF_INTERVALS]);
            of_locks(&mut ledger, accounting);
        }
        // There are no samples; processes and threads may be missing.
        _ => {
            ledger.event = SCHEDULER.to_owned();
            take_losses(&mut ledger, scheduler, sampler);
        }
    }
    let is_shown = |state| settings.shows_state(mode, state);
    let (not_kept, without_stack) = (not_kept(accounting, is_shown), without_stack(accounting, is_shown));
    add(&mut ledger.lost_memory_limit, not_kept);
    add(&mut ledger.lost_no_memory, without_stack);
    ledger.samples = ledger.samples.saturating_sub(not_kept).saturating_sub(without_stack);
    ledger
}

/// The event that was sampled instead of time on CPUs.
fn take_event(ledger: &mut Ledger, event: &Event) {
    ledger.event.clone_from(&event.name);
    ledger.sampled = Some(event.clone());
}

/// How samples were taken.
fn of_sampled(ledger: &mut Ledger, settings: &Settings) {
    ledger.cpus.clone_from(&settings.cpus);
    ledger.unwind.clone_from(&settings.unwind);
}

/// Adds walks of samples that were made in user space. The programs do not count samples whose stack they send unwalked. An off-CPU interval
/// is counted when it ends, wherever its stack is walked.
fn add_deferred_samples(ledger: &mut Ledger, ends: &[u64; WalkEnd::ALL.len()]) {
    add_deferred(ledger, ends);
    let deferred = ledger.deferred;
    add(&mut ledger.samples, deferred);
}

/// What is known of an event that was sampled beside the first one.
fn of_further(ledger: &mut Ledger, of_event: &EventAccounting, scheduler: &Counters) {
    take(ledger, &of_event.sampler);
    take_losses(ledger, &of_event.sampler, scheduler);
    add_deferred_samples(ledger, &of_event.deferred_walks);
    ledger.throttled = clock_periods(ledger.sampled.as_ref(), of_event.throttled_ns);
    ledger.not_run = of_event.not_run.periods;
    add(&mut ledger.lost_memory_limit, of_event.not_kept);
    add(&mut ledger.lost_no_memory, of_event.without_stack);
    ledger.samples = ledger.samples.saturating_sub(of_event.not_kept).saturating_sub(of_event.without_stack);
}

/// What is known of waits for locks. The other intervals of threads are none of them, and what is lost of those neither.
fn of_locks(ledger: &mut Ledger, accounting: &Accounting) {
    let scheduler = &accounting.scheduler;
    ledger.samples = scheduler.lock_waits.saturating_sub(accounting.locks_not_kept);
    ledger.lost_ring_full = 0;
    ledger.lost_map_full = scheduler.locks_lost;
    ledger.lost_memory_limit = accounting.locks_not_kept;
    (ledger.lost_busy, ledger.outside_namespace) = (0, 0);
    (ledger.skipped_min_block, ledger.skipped_min_block_ns) = (0, 0);
    ledger.owners_lost = scheduler.owners_lost;
    ledger.lengths_lost = scheduler.lengths_lost;
}

/// The samples that throttled time would have had, as far as the event is a clock.
fn throttled(settings: &Settings, event: Option<&Event>, throttled_ns: u64) -> u64 {
    if event.is_some() {
        return clock_periods(event, throttled_ns);
    }
    let throttled = u128::from(throttled_ns) * u128::from(settings.sample_rate_hz) / 1_000_000_000;
    u64::try_from(throttled).unwrap_or(u64::MAX)
}

/// The periods of an event in some time, if the event is a clock.
fn clock_periods(event: Option<&Event>, ns: u64) -> u64 {
    match event {
        Some(Event { period_unit: Unit::Nanoseconds, period: Some(period), .. }) => ns / (*period).max(1),
        _ => 0,
    }
}

/// The figures of the capture as a whole.
fn of_whole(settings: &Settings, accounting: &Accounting) -> Ledger {
    let cost = &accounting.cost;
    Ledger {
        version: settings.agent_version.clone(),
        processes: accounting.processes,
        renames_skipped: accounting.renames_skipped,
        life_lost: accounting.life_lost,
        side_band_lost: accounting.side_band_lost,
        unreadable_processes: accounting.unreadable_processes,
        tables_failed: accounting.tables_failed,
        rules_left_out: accounting.rules_left_out,
        tables_evicted: accounting.tables_evicted,
        processes_evicted: accounting.processes_evicted,
        python_merge_failed: accounting.python_merge_failed,
        python_unsupported: accounting.python_unsupported,
        trampolines: accounting.trampolines.clone(),
        never_began: accounting.never_began,
        elapsed: Duration::from_nanos(accounting.elapsed_ns),
        agent_cpu: Duration::from_nanos(cost.agent_cpu_ns),
        agent_elapsed: Duration::from_nanos(cost.agent_elapsed_ns),
        agent_rss_peak_kib: cost.agent_rss_peak_kib,
        bpf_cpu: cost.bpf_cpu_ns.map(Duration::from_nanos),
        bpf_memory_kib: cost.bpf_memory_kib,
        ..Ledger::default()
    }
}

/// Takes over what the programs of this mode counted.
fn take(ledger: &mut Ledger, counters: &Counters) {
    (ledger.walks, ledger.no_user_stack) = walks::of_counters(counters);
    ledger.stacks_sent = counters.stacks_sent;
    ledger.deferred_pending = counters.deferred;
    ledger.samples = counters.samples;
    ledger.lost_ring_full = counters.lost_ring_full;
    ledger.lost_map_full = counters.lost_map_full;
    ledger.lost_no_memory = sum([counters.lost_no_memory, counters.threads_lost]);
    ledger.lost_busy = counters.lost_busy;
    ledger.lost_unseen = counters.lost_unseen;
    ledger.outside_namespace = counters.outside_namespace;
    ledger.frames = counters.frames;
    ledger.frames_walked = counters.frames_walked;
    ledger.memo_hits = counters.memo_hits;
    ledger.memo_checked = counters.memo_checked;
    ledger.memo_differed = counters.memo_differed;
    ledger.skipped_min_block = counters.skipped_min_block;
    ledger.skipped_min_block_ns = counters.skipped_min_block_ns;
    ledger.wakers_lost = counters.wakers_lost;
    ledger.leaves_undecided = counters.leaves_undecided;
    ledger.seams_lost = counters.seams_lost;
    ledger.unsent_of_process = counters.unsent_of_process;
    ledger.unsent_of_machine = counters.unsent_of_machine;
    ledger.unsent_ring_full = counters.unsent_ring_full;
    ledger.values_unreadable = counters.values_unreadable;
    ledger.values_negative = counters.values_negative;
    ledger.python_walks = counters.python;
}

/// Takes over which processes and threads are missing. The programs of either mode follow a new process, so both count the processes
/// that could not be followed.
fn take_losses(ledger: &mut Ledger, counters: &Counters, others: &Counters) {
    ledger.processes_lost = sum([counters.processes_lost, others.processes_lost]);
    ledger.requests_lost = counters.requests_lost;
    ledger.threads_lost = counters.threads_lost;
}

/// Adds walks that were made in user space, by number of their end.
fn add_deferred(ledger: &mut Ledger, ends: &[u64; WalkEnd::ALL.len()]) {
    let (walks, no_user_stack) = walks::by_end(ends);
    ledger.walks.iter_mut().zip(walks).for_each(|(walks, more)| add(walks, more));
    add(&mut ledger.no_user_stack, no_user_stack);
    ledger.deferred = sum(*ends);
    // The programs did not ask for the walks of threads that slept at the start.
    ledger.deferred_pending = ledger.deferred_pending.saturating_sub(ledger.deferred);
}
