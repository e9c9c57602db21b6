//! The time of a wall-clock profile: the scheduler tells how long each task was on CPUs, its samples tell where.

use std::collections::BTreeMap;

use recording::{OffCpuState, Recording, State, TaskId};

use crate::figures::add;
use crate::selection::{self, Entry};

/// What a task did in some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WallState {
    /// It ran.
    OnCpu,
    /// It did not.
    Off(OffCpuState),
}

impl WallState {
    /// The value of the label `state`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::Off(state) => state.name(),
        }
    }
}

/// The time of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallTime {
    pub(crate) state: WallState,
    /// Time in this state.
    pub(crate) time_ns: u64,
    /// Time after it in which the thread could have run, but had no CPU.
    pub(crate) runnable_ns: u64,
}

impl WallTime {
    /// Whether there is any. A count without time has no sample.
    pub(crate) fn is_any(self) -> bool {
        self.time_ns > 0 || self.runnable_ns > 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OnCpu {
    time_ns: u64,
    samples: u64,
}

/// How long each task was on CPUs, and how many samples tell where.
#[derive(Debug, Default)]
pub(crate) struct OnCpuTime(BTreeMap<TaskId, OnCpu>);

impl OnCpuTime {
    /// Of all tasks of a recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut times: BTreeMap<TaskId, OnCpu> = BTreeMap::new();
        for entry in selection::shown(recording) {
            match entry.at.state {
                State::OnCpu => add(&mut times.entry(entry.at.task_id).or_default().time_ns, entry.time_ns),
                State::Sampled => add(&mut times.entry(entry.at.task_id).or_default().samples, entry.count),
                _ => {}
            }
        }
        Self(times)
    }

    /// The time of a count: of samples, their share of the time on CPUs. `None` if the count has no place in a wall-clock profile.
    pub(crate) fn of_entry(&self, entry: &Entry<'_>) -> Option<WallTime> {
        if entry.at.state == State::Sampled {
            let time_ns = self.share_ns(entry.at.task_id, entry.count);
            return Some(WallTime { state: WallState::OnCpu, time_ns, runnable_ns: 0 });
        }
        let state = WallState::Off(entry.at.state.off_cpu()?);
        let time_ns = entry.time_ns.saturating_sub(entry.runnable_ns);
        Some(WallTime { state, time_ns, runnable_ns: entry.runnable_ns })
    }

    /// The tasks that were on CPUs between two samples only, with their time.
    pub(crate) fn between_samples(&self) -> impl Iterator<Item = (TaskId, u64)> {
        let unsampled = self.0.iter().filter(|(_, on_cpu)| on_cpu.samples == 0 && on_cpu.time_ns > 0);
        unsampled.map(|(task, on_cpu)| (*task, on_cpu.time_ns))
    }

    fn share_ns(&self, task: TaskId, samples: u64) -> u64 {
        let on_cpu = self.0.get(&task).copied().unwrap_or_default();
        let share = u128::from(on_cpu.time_ns) * u128::from(samples) / u128::from(on_cpu.samples.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}
