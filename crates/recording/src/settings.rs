//! What was asked for: the part of a capture's configuration that its outputs depend on.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventId};
use crate::mode::Mode;
use crate::off_cpu_state::OffCpuState;
use crate::state::State;

/// What kind of target was profiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TargetKind {
    /// Processes given by number.
    #[default]
    Processes,
    /// The whole machine.
    System,
    /// A command that the agent started.
    Command,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Version of the agent that recorded.
    pub agent_version: String,
    /// What kind of target.
    pub targets: TargetKind,
    /// Whether an on-CPU profile was taken, or the profile of `event`.
    pub cpu_profile: bool,
    /// The event that was sampled instead of time on CPUs.
    pub event: Option<Event>,
    /// Events that were sampled beside that one, in their order. In files they have a section of their own.
    #[serde(skip)]
    pub further_events: Vec<Event>,
    /// Whether allocations were recorded in the place of samples: then `cpu_profile` is set too.
    pub heap_profile: bool,
    /// Whether an off-CPU profile was taken.
    pub off_cpu_profile: bool,
    /// Whether time on CPUs was taken too, for a profile of all time.
    pub wall_profile: bool,
    /// Whether waits for locks were recorded.
    pub locks: bool,
    /// On-CPU samples per second and CPU.
    pub sample_rate_hz: u32,
    /// The CPUs that were sampled, in ascending order, if sampling was restricted.
    pub cpus: Option<Vec<u32>>,
    /// Name of the unwind mode.
    pub unwind: String,
    /// Whether kernel frames are shown.
    pub kernel_stacks: bool,
    /// Whether threads are kept apart.
    pub per_thread: bool,
    /// The states whose time is in the off-CPU profile.
    pub off_cpu_states: Vec<OffCpuState>,
    /// Off-CPU intervals shorter than this were not recorded.
    pub min_block_ns: u64,
    /// Comments of the profile, in the order given.
    pub tags: Vec<(String, String)>,
}

impl Settings {
    /// The profiles that the capture takes: on-CPU, or that of the event, first; scheduler statistics if there is no profile.
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        let further = (1..=self.further_events.len()).filter_map(|number| u8::try_from(number).ok());
        let sampled = [self.sampled_mode()].into_iter().chain(further.map(Mode::FurtherEvent));
        let others = [
            (self.off_cpu_profile, Mode::OffCpu),
            (self.wall_profile, Mode::Wall),
            (self.locks, Mode::Locks),
        ];
        let others = others.into_iter().filter(|(taken, _)| *taken).map(|(_, mode)| mode);
        let modes: Vec<_> = sampled.filter(|_| self.cpu_profile).chain(others).collect();
        if modes.is_empty() { vec![Mode::Pmu] } else { modes }
    }

    /// The event whose samples the profile of a mode shows, if it took the place of the clock.
    #[must_use]
    pub fn event_of(&self, mode: Mode) -> Option<&Event> {
        match mode {
            Mode::Event => self.event.as_ref(),
            Mode::FurtherEvent(number) => self.further_events.get(usize::from(number).checked_sub(1)?),
            _ => None,
        }
    }

    /// The profile that samples of the first event are shown in.
    #[must_use]
    pub fn sampled_mode(&self) -> Mode {
        match &self.event {
            _ if self.heap_profile => Mode::Heap,
            Some(_) => Mode::Event,
            None => Mode::OnCpu,
        }
    }

    /// Length of a period of the clock.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.sample_rate_hz.max(1))
    }

    /// Whether the profile of a mode shows what was recorded of an event in a state. Waits for locks have an event of their own; see
    /// [`EventId::LOCKS`].
    #[must_use]
    pub fn shows(&self, mode: Mode, event: EventId, state: State) -> bool {
        let is_further = event.further_number().is_some();
        if is_further || matches!(mode, Mode::FurtherEvent(_)) {
            return is_further && mode.sampled_event() == Some(event) && state == State::Sampled;
        }
        self.shows_state(mode, state)
    }

    /// The same of all events but further ones.
    #[must_use]
    pub fn shows_state(&self, mode: Mode, state: State) -> bool {
        let off_cpu = state.off_cpu();
        match mode {
            // Freed objects are no occurrences of their own: they are taken off those that were allocated.
            Mode::OnCpu | Mode::Event | Mode::Heap => state == State::Sampled,
            Mode::OffCpu => off_cpu.is_some_and(|state| self.off_cpu_states.contains(&state)),
            Mode::Wall => state == State::Sampled || off_cpu.is_some(),
            Mode::Pmu | Mode::Locks | Mode::FurtherEvent(_) => false,
        }
    }
}
