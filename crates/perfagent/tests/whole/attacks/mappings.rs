//! Processes with tens of thousands of mappings.

use std::time::{Duration, Instant};

use perfagent::Agent;

use super::{CaptureThread, Programs, VICTIM, await_line, rooted, start};
use crate::started::started;

#[test]
fn processes_with_many_mappings_cost_others_no_stacks_and_the_machine_little() {
    let programs = Programs::new();
    let attacker = programs.compile("many_mappings", include_str!("mappings.c"));
    let Some((attacker, victim)) = attacker.zip(programs.compile("victim", VICTIM)) else { return };
    // Their mappings as they are would take 6 MiB.
    let mut attackers: Vec<_> = (0..8).map(|_| start(&attacker, &["25000"])).collect();
    attackers.iter_mut().for_each(await_line);
    let (thread, builder) = CaptureThread::of(Agent::builder().system_wide());
    let agent = builder.table_memory(4 << 20).sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return;
    }
    attackers.iter_mut().for_each(|attacker| drop(attacker.stdin.take()));
    let (begun, before) = (Instant::now(), thread.cpu_time());
    let mut victim = start(&victim, &["2000"]);
    let pid = victim.pid();
    victim.wait().unwrap();
    agent.wait(Duration::from_millis(200));
    let used = (thread.cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    agent.abandon_symbolization();
    let report = agent.stop().unwrap();
    drop(attackers);
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 300 && percent > 90.0, "{percent} % of {samples}");
    assert!(used < 0.5, "{:.0} % of a core", used * 100.0);
}
