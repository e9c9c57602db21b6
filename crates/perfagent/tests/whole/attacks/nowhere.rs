//! A process with tens of thousands of mappings whose stacks all end at a return address in no mapping.

use std::time::Duration;

use perfagent::Agent;

use super::{CaptureThread, Programs, await_line, ledger, start};
use crate::started::started;

#[test]
fn a_return_address_into_nothing_is_looked_for_now_and_then_and_sent_seldom() {
    let programs = Programs::new();
    let Some(attacker) = programs.compile("lost", include_str!("mappings.c")) else { return };
    let mut attacker = start(&attacker, &["32000", "lost"]);
    await_line(&mut attacker);
    drop(attacker.stdin.take());
    let (thread, builder) = CaptureThread::of(Agent::builder().pid(attacker.pid()));
    let agent = builder.sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return;
    }
    let counts = || {
        let ledger = agent.ledger();
        (ledger.samples, ledger.deferred)
    };
    let after = |samples: u64| testkit::until("samples come", || counts().0 >= samples);
    // Reading its mappings takes seconds of CPU time in the dev profile.
    let is_known = testkit::holds_within(5 * testkit::PATIENCE, || {
        let (samples, sent) = counts();
        after(samples + 50);
        counts().1 - sent < 5
    });
    assert!(is_known, "the address is not known to be in no mapping: {:?}", counts());
    let ((samples, sent), before) = (counts(), thread.cpu_time());
    after(samples + 400);
    let used = thread.cpu_time() - before;
    let (samples, sent) = (counts().0 - samples, counts().1 - sent);
    let report = agent.stop().unwrap();
    drop(attacker);
    let entries = ledger(&report).entries();
    let count = |name: &str| -> u64 {
        entries.iter().find(|(key, _)| *key == name).map_or(0, |(_, count)| count.parse().unwrap())
    };
    assert!(count("walks.no_mapping") * 10 > count("samples") * 9, "{entries:?}");
    println!("{sent} of {samples} were sent unwalked; {used:?}");
    assert!(sent * 10 < samples, "{sent} of {samples} were sent unwalked");
    // At 99 samples a second, 15 % of a core.
    assert!(used < Duration::from_micros(1500) * samples as u32, "{used:?} for {samples} samples");
}
