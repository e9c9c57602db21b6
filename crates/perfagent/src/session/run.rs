//! A running capture on its thread: rounds, requests, and what is done now and then.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use sys::clock::kernel_ns;

use super::added_targets::{AddedTargets, NewTarget, take_sleepers};
use super::cut::{CutInterval, cut};
use super::finish::finish;
use super::live_stats;
use super::parts::Parts;
use super::result::CaptureResult;
use super::round::{drain, drain_if_half_full, round};
use crate::finished::Ended;
use crate::python::Pythons;
use crate::sources::{CPU_CHECK_INTERVAL, sched_stats};
use crate::{Error, Targets, Warning, WarningKind};

/// Time between two rounds while processes come and go.
const BUSY: Duration = Duration::from_millis(10);
/// The same, while so many bytes of unwalked stacks come that the ring would be full by then.
const HURRIED: Duration = Duration::from_millis(2);
/// The first rounds are as frequent: a command has just begun, and what it maps is not known yet, so its stacks come unwalked.
const HURRIED_FOR: Duration = Duration::from_millis(300);
/// Bytes of unwalked stacks in one round.
const MANY_BYTES: usize = 256 << 10;
/// Time between two rounds while nothing happens.
const CALM: Duration = Duration::from_millis(50);
/// After something happened, rounds are frequent for this long.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Time between two updates of the running ledger.
const LEDGER_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two passes that free what is no longer used.
const PRUNE_INTERVAL: Duration = Duration::from_secs(5);
/// New keys of sums after which such a pass takes the sums too, so that keys of ended processes can be dropped.
const KEYS_BEFORE_DRAIN: u64 = 8192;

/// What a running capture is asked for. It also stops when all sending ends are dropped.
pub(crate) enum Request {
    /// End the present interval and begin another one.
    Cut(Sender<Result<CutInterval, Error>>),
    /// Follow one more process.
    AddTarget(NewTarget),
    /// End the capture. Requests behind this one are not answered.
    Stop,
}

/// When something is due next.
struct Due(Instant);

impl Due {
    fn now() -> Self {
        Self(Instant::now())
    }

    fn after(interval: Duration) -> Self {
        Self(Instant::now() + interval)
    }

    /// Whether it is due; then the next time is an interval away.
    fn take(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        let due = now >= self.0;
        if due {
            self.0 = now + interval;
        }
        due
    }
}

/// Makes rounds until it is asked to stop, or until all targets have ended.
pub(super) fn run(mut parts: Parts, requests: Receiver<Request>) -> CaptureResult {
    let mut ended_by = Ended::Stopped;
    let (mut ledgers_due, mut metrics_due, mut cpus_due) = (Due::now(), Due::now(), Due::now());
    let mut prune_due = Due::after(PRUNE_INTERVAL);
    let begun = Instant::now();
    let mut busy_until = begun + BUSY_FOR;
    let mut added_targets = AddedTargets::default();
    take_sleepers(&mut parts);
    loop {
        let hurries = parts.intake.walks.take_unwalked_bytes() >= MANY_BYTES || begun.elapsed() < HURRIED_FOR;
        let pause = match Instant::now() < busy_until {
            _ if hurries => HURRIED,
            true => BUSY,
            false => CALM,
        };
        match requests.recv_timeout(pause) {
            // The asking end may have gone meanwhile: then nobody wants the answer.
            Ok(Request::Cut(reply)) => _ = reply.send(cut(&mut parts)),
            Ok(Request::AddTarget(target)) => added_targets.add(&mut parts, target),
            Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if round(&mut parts, false) {
            busy_until = Instant::now() + BUSY_FOR;
        }
        drain_if_half_full(&mut parts);
        let Parts { process_places, kernel, processes, tables, .. } = &mut parts;
        process_places.make_room(kernel, processes, tables);
        parts.processes.look_for_ended_targets(parts.arrivals.complete_ns());
        added_targets.follow_ready(&mut parts);
        if !matches!(parts.config.targets, Targets::System)
            && !parts.processes.histories().has_living_target()
        {
            ended_by = Ended::TargetsExited;
            break;
        }
        if cpus_due.take(CPU_CHECK_INTERVAL) {
            let followed = parts.cpus.follow(&mut parts.side_band, &mut parts.sources, &mut parts.kernel);
            parts.warnings.extend(followed);
            parts.warnings.extend(parts.sources.take_warnings());
            if let Some(python) = &mut parts.intake.resolver.python {
                parts.warnings.extend(python.take_warnings());
            }
        }
        if ledgers_due.take(LEDGER_INTERVAL) {
            live_stats::update_ledgers(&mut parts);
        }
        if metrics_due.take(sched_stats::SNAPSHOT_INTERVAL) || parts.shared.awaits_metrics() {
            metrics_due = Due::after(sched_stats::SNAPSHOT_INTERVAL);
            update_metrics(&mut parts);
        }
        if prune_due.take(PRUNE_INTERVAL) {
            prune(&mut parts);
        }
    }
    // Requests that came too late are refused at once.
    drop((requests, added_targets));
    stop(parts, ended_by)
}

fn update_metrics(parts: &mut Parts) {
    if parts.shared.are_metrics_wanted() {
        let elapsed = parts.elapsed();
        live_stats::share_metrics(parts, elapsed);
    } else {
        live_stats::gather_metrics(parts);
    }
    if parts.server.is_some() {
        live_stats::share_health(parts);
    }
}

/// Frees what is no longer used.
fn prune(parts: &mut Parts) {
    parts.processes.prune();
    if parts.intake.undrained() > KEYS_BEFORE_DRAIN {
        drain(parts);
    }
    parts.tables.free_unused(&mut parts.kernel);
    parts.intake.walks.release_unused();
    parts.intake.resolver.pythons().into_iter().for_each(Pythons::prune);
    sys::memory::give_back_free_pages();
}

/// Disables the sources and ends the capture.
fn stop(mut parts: Parts, ended_by: Ended) -> CaptureResult {
    if parts.config.follows_waits() {
        // So that there is room for the sums of all threads that sleep now.
        drain(&mut parts);
    }
    let returned = parts.cpus.finish(&mut parts.side_band);
    parts.warnings.extend(returned);
    let end_ns = kernel_ns();
    for error in parts.sources.disable(&mut parts.kernel, end_ns) {
        parts.warnings.add(Warning::bare(WarningKind::Capture, error.to_string()));
    }
    parts.warnings.extend(parts.sources.take_warnings());
    let duration = Duration::from_nanos(end_ns.saturating_sub(parts.start_ns));
    parts.server = None;
    parts.shared.end(ended_by);
    finish(parts, ended_by, duration, end_ns)
}
