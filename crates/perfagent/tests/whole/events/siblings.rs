//! Probes in processes of which one ends before the others.

use perfagent::Mode;

use super::{captured_of, folded};

/// Of processes that have inherited a probe, the kernel may take it out of one when another one ends.
#[test]
fn a_probe_stays_in_the_children_when_one_of_them_ends() {
    let event = |program: &std::path::Path| format!("uprobe:{}:hit", program.display());
    let captured =
        captured_of(include_str!("siblings.c"), &[], |builder, program| builder.event(&event(program)));
    let Some((report, calls)) = captured else { return };
    let sampled: u64 = folded(report.recording()).iter().map(|(_, calls)| calls).sum();
    let lost = report.ledger(Mode::Event).unwrap().lost();
    assert_eq!(sampled + lost, calls, "{lost} lost");
}
