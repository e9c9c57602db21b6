//! Targets that change all the time, and agents that begin and end among them at random moments: each ledger adds up, nothing stays
//! behind, and no target is changed.
//!
//! The choices follow from a seed, which is printed. In the environment: `PERF_AGENT_CHAOS_SEED` for another seed,
//! `PERF_AGENT_CHAOS_AGENTS` for another number of agents.

mod agent;
mod groups;
mod leftovers;
mod random;
mod targets;

use std::time::Instant;

use crate::Setup;
use agent::{Agent, End, Subject};
use random::Random;
use targets::Targets;

/// As many agents as this meet each way to end in each mode.
const COMBINATIONS: u64 = (MODES.len() * ENDS.len()) as u64;

const MODES: [&[&str]; 5] = [
    &["--profile"],
    &["--offcpu"],
    &["--profile", "--offcpu"],
    &["--profile", "--offcpu", "--rotate", "150ms"],
    &["--profile", "--offcpu", "--per-thread", "--kernel-stacks"],
];
const ENDS: [End; 4] = [End::ByItself, End::Interrupted, End::Terminated, End::Killed];

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn agents_among_changing_targets_account_for_all_and_leave_nothing() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let seed = from_environment("PERF_AGENT_CHAOS_SEED").unwrap_or(20_261_123);
    let agents = from_environment("PERF_AGENT_CHAOS_AGENTS").unwrap_or(COMBINATIONS);
    println!("PERF_AGENT_CHAOS_SEED={seed}");
    let mut random = Random::new(seed);
    let mut targets = Targets::start(&setup, &mut random);
    let (begun, mut profiles, mut kills, mut number) = (Instant::now(), 0, 0, 0);
    while number < agents {
        let (mode, end) = (MODES[(number % 5) as usize], ENDS[(number % 4) as usize]);
        let subject = if random.one_of(3) == 0 {
            Subject::Machine
        } else {
            Subject::Processes(targets.some(&mut random))
        };
        let what = format!("agent {number}: {mode:?}, {subject:?}, {end:?}");
        let mut agent = Agent::start(&setup, mode, &subject, end, &mut random);
        let deaths = agent.watch(&mut targets, &mut random);
        let ended = agent.end(&what, &subject, &deaths);
        profiles += ended.accounted_profiles(mode, &what);
        kills += u64::from(end == End::Killed && ended.held_programs());
        ended.leaves_nothing(&targets, &what);
        targets.go_on_unchanged(&what);
        number += 1;
    }
    println!("{number} agents, {profiles} profiles, {kills} killed with programs, in {:?}", begun.elapsed());
    assert!(profiles > 0 && kills > 0, "{profiles} profiles, {kills} agents killed with programs");
}
