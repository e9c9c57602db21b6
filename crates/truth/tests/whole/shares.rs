//! Shares of CPU time, and the number of samples.

use truth::profiler::{PerfMode, Profiler};
use truth::run::Plan;
use truth::shares::measure;

use crate::Setup;

#[test]
fn four_functions_have_their_shares() {
    let Some(setup) = Setup::alone() else { return };
    let plan = Plan { seconds: 10.0, rate_hz: 999 };
    let mut profilers = vec![setup.profiler()];
    if testkit::needed("perf").is_some() {
        profilers.push(Profiler::Perf(PerfMode::FramePointers));
    }
    let measured = measure(&setup.out, &profilers, plan).unwrap();
    let agent = &measured[0];
    // Chance alone moves a share by less than four standard deviations.
    let allowed = 400.0 * (0.24 / agent.samples.max(1) as f64).sqrt();
    assert!(agent.worst_error() <= allowed, "within {allowed:.2} percentage points: {agent:?}");
    // The CPU time that others leave the program is known to ticks of 10 ms, and is not the same throughout.
    let is_quiet = agent.expected >= 0.95 * plan.seconds * f64::from(plan.rate_hz);
    let tolerance = if is_quiet { 0.02 } else { 0.10 };
    let own = agent.samples as f64 / agent.expected;
    let ratio = measured.get(1).map_or(own, |perf| agent.samples as f64 / perf.samples as f64);
    let near = |value: f64| (value - 1.0).abs() <= tolerance;
    assert!(near(own) || near(ratio), "number of samples: {measured:?}");
}
