//! The seam between two intervals of a capture that goes on.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use recording::{Accounting, Context, Mode, Recording, Span, StackSums};
use sys::clock::kernel_ns;

use super::parts::{Carried, Interval, Parts};
use super::round::round;
use super::{accounting, convert, main_mapping, perf_data, settings};
use crate::Error;
use crate::naming::LateNames;

/// Records of processes are held back for a moment, to keep their order, and with them the stacks behind them.
const ARRIVALS: Duration = Duration::from_millis(20);
/// Time between two checks whether they are here.
const ARRIVALS_CHECK: Duration = Duration::from_millis(1);

/// An interval whose names may still be on their way.
pub(crate) struct CutInterval {
    pub(crate) recording: Recording,
    pub(crate) names: LateNames,
}

/// Ends the present interval and begins the next one. Sampling goes on.
///
/// Stacks that wait for their tables, and sums whose stack is still on its way, go to the next interval.
pub(super) fn cut(parts: &mut Parts) -> Result<CutInterval, Error> {
    round(parts, false);
    let taken = parts.intake.cut(&mut parts.kernel).map_err(|error| Error::System {
        attempt: "take the sums of an interval".to_owned(),
        source: std::io::Error::other(error),
    })?;
    let seam_ns = taken.at_ns;
    let ended = SystemTime::now() - Duration::from_nanos(kernel_ns().saturating_sub(seam_ns));
    let total = accounting::total(parts);
    // All programs that added to this interval have ended, so its stacks have been sent.
    let deadline = std::time::Instant::now() + ARRIVALS;
    round(parts, false);
    while !parts.arrivals.is_empty() && std::time::Instant::now() < deadline {
        std::thread::sleep(ARRIVALS_CHECK);
        round(parts, false);
    }
    let open: HashSet<u64> = taken.open.iter().flat_map(|stretch| [stretch.key, stretch.lock]).collect();
    for stretch in &taken.open {
        let time = StackSums { count: 0, value: stretch.value, waited: stretch.waited };
        parts.intake.builder.add_open(stretch.key, time);
        let of_lock = StackSums { count: 0, value: stretch.lock_ns, waited: 0 };
        parts.intake.builder.add_open(stretch.lock, of_lock);
    }
    let before = &parts.interval.before;
    let mut figures = total.since(before);
    figures.sampler = convert::counters(&taken.sampler);
    figures.scheduler = convert::counters(&taken.off_cpu);
    let mut next_before = total;
    next_before.sampler = before.sampler.plus(&figures.sampler);
    next_before.scheduler = before.scheduler.plus(&figures.scheduler);
    for ((figures, counters), (next, before)) in figures.further.iter_mut().zip(&taken.further).zip(
        next_before.further.iter_mut().zip(before.further.iter().map(Some).chain(std::iter::repeat(None))),
    ) {
        figures.sampler = convert::counters(counters);
        next.sampler = before.map_or(figures.sampler, |before| before.sampler.plus(&figures.sampler));
    }
    let carried = late(parts);
    parts.interval.carried.add_to(&mut figures);
    carried.take_from(&mut figures);
    parts.intake.walks.end_interval(&mut figures);
    figures.elapsed_ns = seam_ns.saturating_sub(parts.interval.start_ns);
    let context = context(parts, figures);
    let names = parts.end_naming();
    let (recording, renumbering) = parts.intake.builder.cut(context, &open);
    parts.intake.resolver.renumber(&renumbering);
    parts.interval = Interval { started: ended, start_ns: seam_ns, before: next_before, carried };
    perf_data::cut(parts);
    Ok(CutInterval { recording, names })
}

/// Samples and waits whose stack is still on its way, and their time. Their sums belong to the next interval.
fn late(parts: &mut Parts) -> Carried {
    let Parts { intake, settings, .. } = parts;
    intake.builder.resolve_pairs();
    let sampled = settings.sampled_mode();
    let early = |mode| intake.builder.early_count(|event, state| settings.shows(mode, event, state));
    let further = settings.modes().into_iter().filter(|mode| matches!(mode, Mode::FurtherEvent(_)));
    Carried {
        samples: early(sampled),
        further: further.map(early).collect(),
        waits: early(Mode::OffCpu),
        locks: intake.builder.early_locks(),
        time_ns: if settings.wall_profile { intake.builder.early_time_ns() } else { 0 },
    }
}

/// The parts of the present interval's recording besides stacks and counts.
pub(super) fn context(parts: &Parts, accounting: Accounting) -> Context {
    Context {
        settings: parts.settings.clone(),
        span: Span {
            start_ns: convert::since_epoch_ns(parts.interval.started),
            duration_ns: accounting.elapsed_ns,
        },
        start_ns: parts.interval.start_ns,
        origin: parts.origin.clone(),
        kernel: super::kernel_image::running(parts.settings.kernel_stacks),
        main: parts.first_target.and_then(|pid| main_mapping::of(&parts.processes, pid)),
        events: settings::events(&parts.config),
        accounting,
    }
}
