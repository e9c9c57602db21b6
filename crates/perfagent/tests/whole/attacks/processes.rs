//! More processes than there are places for.

use std::time::Duration;

use perfagent::Agent;

use super::{Programs, VICTIM, await_line, ledger, rooted, start};
use crate::started::started;

#[test]
fn processes_that_sleep_make_place_for_those_that_run() {
    let programs = Programs::new();
    let attacker = programs.compile("many_processes", include_str!("many_processes.c"));
    let Some((attacker, victim)) = attacker.zip(programs.compile("victim", VICTIM)) else { return };
    // With this memory there are 1,024 places.
    let builder = Agent::builder().system_wide().sample_rate(499).with_cpu_profile();
    let agent = builder.table_memory(1 << 20).build().unwrap();
    if !started(&agent) {
        return;
    }
    let mut attacker = start(&attacker, &["1500"]);
    await_line(&mut attacker);
    agent.wait(Duration::from_millis(500));
    drop(attacker.stdin.take());
    testkit::until("processes leave", || agent.ledger().processes_evicted > 100);
    // How soon a place is free depends on what else the machine does.
    let first = start(&victim, &["600000"]);
    let counts = || (agent.ledger().samples, agent.ledger().deferred + agent.ledger().unsent_of_process);
    testkit::until("there is a place for a victim", || {
        let (samples, unwalked) = counts();
        testkit::until("samples come", || counts().0 >= samples + 200);
        counts().1 < unwalked + 50
    });
    let mut second = start(&victim, &["2000"]);
    let pid = second.pid();
    second.wait().unwrap();
    drop(first);
    agent.wait(Duration::from_millis(200));
    agent.abandon_symbolization();
    let report = agent.stop().unwrap();
    drop(attacker);
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 500 && percent > 90.0, "{percent} % of {samples}");
    let told = ledger(&report).entries();
    assert!(told.iter().any(|(key, count)| key == "processes_evicted" && count != "0"), "{told:?}");
}
