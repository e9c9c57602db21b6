//! More processes than there are places for.

use std::time::Duration;

use perfagent::{Agent, Mode, Recording};
use recording::WalkEnd;

use super::{Programs, VICTIM, await_line, start};
use crate::started::started;

/// The samples of a process in an interval, and those whose stack has its root.
fn rooted_of(interval: &Recording, pid: u32) -> (u64, u64) {
    let model = &interval.model().recording;
    model.counts.iter().fold((0, 0), |(samples, rooted), count| {
        let at = model.task_stack(count.stack).unwrap();
        if model.task(at.task).and_then(|task| task.pid) != Some(pid) {
            return (samples, rooted);
        }
        let value = count.value(0);
        let is_rooted = model.stack(at.stack).unwrap().end == WalkEnd::Root;
        (samples + value, rooted + if is_rooted { value } else { 0 })
    })
}

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
    let victim = start(&victim, &["600000"]);
    let mut is_told = false;
    // How soon there is a place, and then a table, depends on what else the machine does.
    testkit::until("the victim's stacks are whole", || {
        agent.wait(Duration::from_secs(1));
        let interval = agent.cut().unwrap();
        interval.abandon_symbolization();
        let ledger = interval.ledger(Mode::OnCpu);
        is_told |= ledger.iter().any(|(key, count)| key == "processes_evicted" && count != "0");
        let (samples, rooted) = rooted_of(&interval, victim.pid());
        samples >= 20 && rooted * 10 > samples * 9
    });
    agent.abandon_symbolization();
    agent.stop().unwrap();
    drop((attacker, victim));
    assert!(is_told, "no ledger says that processes were evicted");
}
