//! What recordings say, in figures that can be compared.

use std::collections::BTreeMap;

use perfagent::{Mode, Recording};
use recording::{EventId, State};

/// The events of a capture's recordings.
pub(super) const CPU_CLOCK: EventId = EventId(0);
const SCHEDULER: EventId = EventId(1);

/// Sums of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Samples on CPUs.
    pub(super) samples: u64,
    /// Waits that ended.
    pub(super) waits: u64,
    /// Time off CPUs.
    pub(super) off_cpu_ns: u64,
    /// Time on CPUs.
    pub(super) on_cpu_ns: u64,
}

/// The sums of each thread by its number.
pub(super) fn by_thread(recordings: &[Recording]) -> BTreeMap<u32, Sums> {
    let mut threads: BTreeMap<u32, Sums> = BTreeMap::new();
    for recording in recordings.iter().map(|recording| &recording.model().recording) {
        for count in &recording.counts {
            let at = recording.task_stack(count.stack).unwrap();
            let Some(thread) = recording.task(at.task).and_then(|task| task.thread.as_ref()) else {
                continue;
            };
            let sums = threads.entry(thread.tid).or_default();
            match (count.event, at.state) {
                (CPU_CLOCK, _) => sums.samples += count.value(0),
                (SCHEDULER, State::OnCpu) => sums.on_cpu_ns += count.value(1),
                (_, state) if state.off_cpu().is_some() => {
                    sums.waits += count.value(0);
                    sums.off_cpu_ns += count.value(1);
                }
                _ => {}
            }
        }
    }
    threads
}

/// A figure of the ledger.
pub(super) fn figure(recording: &Recording, mode: Mode, key: &str) -> f64 {
    let ledger = recording.ledger(mode);
    let value = ledger.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// Fails unless an interval has as many samples and waits as its ledgers say.
pub(super) fn check_samples(recording: &Recording) {
    let (on_cpu, off_cpu) = recording.model().recording.counts.iter().fold((0, 0), |sums, count| {
        let model = &recording.model().recording;
        let at = model.task_stack(count.stack).unwrap();
        match at.state {
            _ if model.stack(at.stack).unwrap().missing == Some(recording::MissingStack::Gate) => sums,
            State::Sampled => (sums.0 + count.value(0), sums.1),
            state if model.settings.shows(Mode::OffCpu, count.event, state) => {
                (sums.0, sums.1 + count.value(0))
            }
            _ => sums,
        }
    });
    for (mode, counted) in [(Mode::OnCpu, on_cpu), (Mode::OffCpu, off_cpu)] {
        let told = figure(recording, mode, "samples") as u64;
        assert_eq!(counted, told, "{mode:?}: {:?}", recording.ledger(mode));
    }
}

/// Fails unless two figures are the same within a share, and a few.
#[track_caller]
pub(super) fn assert_near(what: &str, one: f64, other: f64, share: f64, few: f64) {
    assert!((one - other).abs() <= share * other.abs() + few, "{what}: {one} and {other}");
}
