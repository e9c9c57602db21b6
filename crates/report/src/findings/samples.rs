//! Samples that are missing.

use recording::{Event, Mode, NotRun, Recording, Settings, TargetKind};

use super::finding::{EndedBy, Finding, FindingKind};
use crate::ledger::Ledger;

/// A target that was busy for this many sampling periods would have been sampled.
const IDLE_PERIODS: f64 = 10.0;

const NO_MEMORY_LEFT: &str = "all stacks together took the memory that they may";

/// The share of a CPU's periods, in thousandths, of which nothing is said.
const MAX_NOT_RUN_THOUSANDTHS: u32 = 20;

/// The capture was cancelled before it began.
pub(super) fn never_began() -> Finding {
    let message = "no samples: stopped before sampling began";
    Finding::new(FindingKind::NoSamples, message, "let it run for longer")
}

/// Samples that were lost because something was full.
pub(super) fn no_room(ledger: &Ledger) -> impl Iterator<Item = Finding> {
    let causes = [
        (ledger.lost_map_full, "there were more distinct stacks than fit", "raise --max-stacks"),
        (ledger.lost_ring_full, "more new stacks came at once than fit into the ring", "raise --ring-size"),
        (ledger.lost_memory_limit, NO_MEMORY_LEFT, "raise --max-memory, or cut the capture with --rotate"),
    ];
    let mode = ledger.subject();
    causes.into_iter().filter(|(lost, ..)| *lost > 0).map(move |(lost, cause, hint)| {
        Finding::new(FindingKind::Lost, format!("{mode}: {lost} samples are lost: {cause}"), hint)
    })
}

/// Samples of an event that has a value which are recorded without it.
pub(super) fn without_value(ledger: &Ledger) -> impl Iterator<Item = Finding> {
    let causes = [
        (
            ledger.values_unreadable,
            "it could not be read",
            "the address may be wrong, or its page not in memory",
        ),
        (
            ledger.values_negative,
            "it was negative, or 2^63 and more",
            "such values are often errors; give the type, as in n=%di:s32",
        ),
    ];
    let mode = ledger.subject();
    let of = ledger.samples;
    causes.into_iter().filter(|(without, ..)| *without > 0).map(move |(without, cause, hint)| {
        let message = format!("{mode}: {without} of {of} samples are counted without their value: {cause}");
        Finding::new(FindingKind::Values, message, hint)
    })
}

/// Periods of the sampled events in which the kernel ran no program, where a CPU lacks more than it should.
pub(super) fn not_run(recording: &Recording) -> impl Iterator<Item = Finding> {
    let settings = &recording.settings;
    let first = (settings.sampled_mode().name(), recording.accounting.not_run);
    let further = settings.further_events.iter().map(Event::kind);
    let further = further.zip(recording.accounting.further.iter().map(|of_event| of_event.not_run));
    std::iter::once(first).chain(further).filter_map(|(whose, not_run)| not_run_of(whose, not_run))
}

fn not_run_of(mode: &str, NotRun { periods, worst }: NotRun) -> Option<Finding> {
    let (cpu, thousandths) = worst.filter(|(_, thousandths)| *thousandths > MAX_NOT_RUN_THOUSANDTHS)?;
    let message = format!(
        "{mode}: about {periods} periods have no sample, {}.{} % of those of CPU {cpu}: the kernel did not run the sampler",
        thousandths / 10,
        thousandths % 10
    );
    let hint = "a thread that changes BPF maps all the time, or a busy host, takes them; they are missing in the profile";
    Some(Finding::new(FindingKind::NotRun, message, hint))
}

/// Why the profile of a mode has no samples.
pub(super) fn none(recording: &Recording, mode: Mode, ended_by: EndedBy) -> Finding {
    let settings = &recording.settings;
    let (reason, hint) = match mode {
        Mode::OffCpu => no_intervals(settings),
        Mode::Locks => (
            "no thread of the targets waited for a lock",
            "profile while there is load; locks that are taken by spinning are not seen, nor those of Go with -a",
        ),
        Mode::Event | Mode::FurtherEvent(_) => (
            "the event did not happen in the targets, or less often than its period",
            "profile for longer, or while there is load; lower period=N",
        ),
        Mode::Heap => (
            "the targets allocated no memory by the functions that are probed",
            "profile for longer, or while there is load; docs/heap.md tells which allocators are known",
        ),
        _ => no_ticks(settings, recording.span.duration_ns, ended_by),
    };
    // Of several events, the one is told that has none.
    let event = settings.event_of(mode).filter(|_| !settings.further_events.is_empty());
    let of = event.map(|event| format!(" of {}", event.kind())).unwrap_or_default();
    Finding::new(FindingKind::NoSamples, format!("no samples{of}: {reason}"), hint)
}

fn no_intervals(settings: &Settings) -> (&'static str, &'static str) {
    if settings.min_block_ns > 0 {
        ("no off-CPU interval was as long as --min-block", "lower --min-block")
    } else {
        ("the targets were never off their CPUs in the states asked for", "add states to --offcpu-states")
    }
}

fn no_ticks(settings: &Settings, duration_ns: u64, ended_by: EndedBy) -> (&'static str, &'static str) {
    let periods = duration_ns as f64 / 1e9 * f64::from(settings.sample_rate_hz);
    match ended_by {
        EndedBy::TargetsExited if periods >= IDLE_PERIODS => (
            "the targets ended and had used hardly any CPU time: they slept or waited",
            "an off-CPU profile (--offcpu) tells where they wait",
        ),
        EndedBy::TargetsExited if settings.targets == TargetKind::Command => {
            ("the command ended before the first sample", "raise --sample-rate, or run it for longer")
        }
        EndedBy::TargetsExited => (
            "all targets ended before the first sample",
            "profile them while they run, or start them with -- CMD; raise --sample-rate for short ones",
        ),
        EndedBy::Request if settings.sample_rate_hz < 10 => {
            ("the rate is low for the length of the capture", "raise --sample-rate")
        }
        EndedBy::Request => (
            "the targets used hardly any CPU time: they slept or waited",
            "profile for longer, or while there is load; an off-CPU profile (--offcpu) tells where they wait",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(mode: Mode, ended_by: EndedBy, settings: Settings, duration_ns: u64) -> String {
        let mut recording = Recording { settings, ..Recording::default() };
        recording.span.duration_ns = duration_ns;
        none(&recording, mode, ended_by).message
    }

    #[test]
    fn the_reason_follows_from_how_the_capture_went() {
        let on_cpu = |ended_by, targets, sample_rate_hz, duration_ns| {
            let settings = Settings { targets, sample_rate_hz, ..Settings::default() };
            said(Mode::OnCpu, ended_by, settings, duration_ns)
        };
        let (exited, asked) = (EndedBy::TargetsExited, EndedBy::Request);
        let (command, pids) = (TargetKind::Command, TargetKind::Processes);
        let short = on_cpu(exited, command, 99, 100_000_000);
        assert_eq!(short, "no samples: the command ended before the first sample");
        let idle = on_cpu(exited, command, 99, 1_000_000_000);
        assert!(idle.contains("the targets ended and had used hardly any CPU time"), "{idle}");
        assert!(on_cpu(exited, pids, 99, 1).contains("all targets ended"));
        assert!(on_cpu(asked, pids, 9, 1).contains("the rate is low"));
        assert!(on_cpu(asked, pids, 10, 1).contains("slept or waited"));
    }

    #[test]
    fn intervals_are_missing_for_other_reasons() {
        let off_cpu = |min_block_ns| {
            let settings = Settings { min_block_ns, ..Settings::default() };
            said(Mode::OffCpu, EndedBy::TargetsExited, settings, 1)
        };
        assert!(off_cpu(1).contains("--min-block"));
        assert!(off_cpu(0).contains("never off their CPUs"));
    }

    #[test]
    fn samples_without_their_value_are_told_by_cause() {
        let ledger = Ledger { samples: 9, values_unreadable: 2, mode: Mode::Event, ..Ledger::default() };
        let told: Vec<_> = without_value(&ledger).map(|finding| (finding.kind, finding.message)).collect();
        let message = "event: 2 of 9 samples are counted without their value: it could not be read";
        assert_eq!(told, [(FindingKind::Values, message.to_owned())]);
        let negative = Ledger { values_negative: 1, ..Ledger::default() };
        assert!(without_value(&negative).next().unwrap().message.contains("negative"));
        assert_eq!(without_value(&Ledger::default()).count(), 0);
    }

    #[test]
    fn each_cause_of_a_loss_is_told_with_its_figure() {
        let ledger = Ledger {
            lost_map_full: 7,
            lost_ring_full: 9,
            lost_memory_limit: 3,
            lost_busy: 1,
            ..Ledger::default()
        };
        let told: Vec<_> = no_room(&ledger).map(|finding| finding.message).collect();
        assert_eq!(
            told,
            [
                "on-cpu: 7 samples are lost: there were more distinct stacks than fit",
                "on-cpu: 9 samples are lost: more new stacks came at once than fit into the ring",
                "on-cpu: 3 samples are lost: all stacks together took the memory that they may",
            ]
        );
    }
}
