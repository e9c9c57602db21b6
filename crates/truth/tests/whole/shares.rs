//! Shares of CPU time, and the number of samples.

use truth::profiler::{PerfMode, Profiler};
use truth::run::Plan;
use truth::shares::{Shares, measure};

use crate::Setup;

#[test]
fn four_functions_have_their_shares() {
    let Some(setup) = Setup::alone() else { return };
    let plan = Plan { seconds: 10.0, rate_hz: 999 };
    let mut profilers = vec![setup.profiler()];
    if testkit::find_command("perf").is_some() {
        profilers.push(Profiler::Perf(PerfMode::FramePointers));
    }
    // Of 10,000 samples chance alone moves a share of 40 % by more than a point once in twenty runs; not three times.
    let mut complaints = Vec::new();
    while complaints.len() < 3 {
        let measured = measure(&setup.out, &profilers, plan).unwrap();
        match judge(&measured, plan) {
            Ok(()) => return,
            Err(complaint) => complaints.push(complaint),
        }
    }
    panic!("{}", complaints.join("\n"));
}

fn judge(measured: &[Shares], plan: Plan) -> Result<(), String> {
    let agent = &measured[0];
    // A program that others keep off the CPU gives fewer samples; then chance alone is larger than the target.
    let full = plan.seconds * f64::from(plan.rate_hz);
    let quiet = agent.expected >= 0.95 * full;
    let three_sigma = 300.0 * (0.24 / agent.samples.max(1) as f64).sqrt();
    let allowed = if quiet { 1.0 } else { three_sigma.max(1.0) };
    if agent.worst_error() > allowed {
        return Err(format!("within {allowed:.2} percentage points: {agent:?}"));
    }
    let own = agent.samples as f64 / agent.expected;
    let ratio = measured.get(1).map_or(own, |perf| agent.samples as f64 / perf.samples as f64);
    let tolerance = if quiet { 0.02 } else { 0.10 };
    let near = |value: f64| (value - 1.0).abs() <= tolerance;
    if near(own) || near(ratio) { Ok(()) } else { Err(format!("number of samples: {measured:?}")) }
}
