//! Which samples each profile shows, and what its ledger says of them when all sums are known.

use kernel::State;

use super::assemble::off_cpu_state;
use super::stacks::{Entry, Stack, Stacks, Unknown};
use crate::ledger::StackOf;
use crate::{Config, Ledger, Mode};

/// Whether a profile shows what is summed up in this state.
pub(super) fn is_shown(config: &Config, mode: Mode, state: State) -> bool {
    let off_cpu = off_cpu_state(state);
    match mode {
        Mode::OnCpu => state == State::Sampled,
        Mode::OffCpu => off_cpu.is_some_and(|state| config.off_cpu_states.contains(&state)),
        Mode::Wall => state == State::Sampled || off_cpu.is_some(),
        Mode::Pmu => false,
    }
}

/// Samples of a profile that are in no sum for want of room.
pub(super) fn not_kept(config: &Config, mode: Mode, by_state: &[u64; State::ALL.len()]) -> u64 {
    let shown = State::ALL.iter().filter(|state| is_shown(config, mode, **state));
    shown.map(|state| by_state[*state as usize]).sum()
}

/// Completes the ledgers with what is known of the samples of their profiles; that of a wall-clock profile is added.
/// `threads_ns` is how long all threads existed inside of the capture.
pub(super) fn complete(config: &Config, stacks: &Stacks, ledgers: &mut Vec<Ledger>, threads_ns: u64) {
    for ledger in &mut *ledgers {
        let is_shown = |entry: &Entry<'_>| is_shown(config, ledger.mode, entry.stack.state);
        let of_gate: u64 = stacks.of_gate().filter(is_shown).map(|entry| entry.sums.count).sum();
        ledger.samples = ledger.samples.saturating_sub(of_gate);
    }
    if config.wall_profile
        && let [on_cpu, off_cpu] = &ledgers[..]
    {
        let mut wall = wall_clock(config, stacks, on_cpu, off_cpu);
        // Whatever the process of a command did before it ran it is in no sum of that profile.
        let of_gate: u64 =
            stacks.of_gate().filter(|entry| is_time(entry.stack.state)).map(|e| e.sums.value).sum();
        if let Some(sums) = &mut wall.wall_clock {
            sums.threads_ns = threads_ns.saturating_sub(of_gate);
        }
        ledgers.push(wall);
    }
    for ledger in ledgers {
        ledger.begin_content();
        for Entry { stack, sums, .. } in stacks.iter() {
            if is_shown(config, ledger.mode, stack.state) {
                let user_frames = stack.places.len() - stack.kernel_places;
                ledger.add_content(stack_of(&stack), sums.count, user_frames as u64);
            }
        }
    }
}

/// The ledger of all time: also of the states that are not asked for in the off-CPU profile.
fn wall_clock(config: &Config, stacks: &Stacks, on_cpu: &Ledger, off_cpu: &Ledger) -> Ledger {
    let mut wall = Ledger::of_wall_clock(on_cpu, off_cpu);
    let only_here = |state: &State| {
        is_shown(config, Mode::Wall, *state)
            && !is_shown(config, Mode::OnCpu, *state)
            && !is_shown(config, Mode::OffCpu, *state)
    };
    let more = stacks.iter().filter(|entry| only_here(&entry.stack.state));
    wall.samples += more.map(|entry| entry.sums.count).sum::<u64>();
    let not_kept = State::ALL.iter().filter(|state| only_here(state));
    wall.lost_no_memory += not_kept.map(|state| stacks.book.not_kept[*state as usize]).sum::<u64>();
    wall
}

/// Whether values of sums in this state are time.
fn is_time(state: State) -> bool {
    state == State::OnCpu || off_cpu_state(state).is_some()
}

fn stack_of(stack: &Stack<'_>) -> StackOf {
    match stack.unknown {
        Some(Unknown::Asleep) => StackOf::AsleepBefore,
        Some(Unknown::NotRunYet) => StackOf::NotRunYet,
        Some(Unknown::Gate) | None => StackOf::Walk(stack.end),
    }
}
