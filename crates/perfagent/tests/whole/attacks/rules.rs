//! A file with more different unwind rules than any real one.

use std::time::Duration;

use perfagent::{Agent, WarningKind};

use super::{Programs, VICTIM, ledger, rooted, start};
use crate::started::started;

#[test]
fn a_file_with_too_many_rules_costs_no_other_program_its_stacks() {
    let programs = Programs::new();
    let attacker = programs.compile("many_rules", include_str!("rules.c"));
    let Some((attacker, victim)) = attacker.zip(programs.compile("victim", VICTIM)) else { return };
    let attacker = start(&attacker, &[]);
    let agent = Agent::builder().system_wide().sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return;
    }
    // The attacker has what it can get before the victim comes.
    testkit::until("the attacker's table is in the kernel", || agent.ledger().rules_left_out > 20_000);
    let mut victim = start(&victim, &["1500"]);
    let pid = victim.pid();
    victim.wait().unwrap();
    agent.wait(Duration::from_millis(200));
    agent.abandon_symbolization();
    let report = agent.stop().unwrap();
    drop(attacker);
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 200 && percent > 90.0, "{percent} % of {samples}");
    let entries = ledger(&report).entries();
    let has_left_out = entries.iter().any(|(key, count)| key == "rules_left_out" && count != "0");
    assert!(has_left_out, "no rules_left_out: {entries:?}");
    let told = report.warnings.iter().filter(|warning| warning.kind == WarningKind::Tables);
    let told = told
        .filter(|warning| warning.message.contains("many_rules") && warning.message.contains("unwind rules"));
    assert_eq!(told.count(), 1, "{:?}", report.warnings);
}
