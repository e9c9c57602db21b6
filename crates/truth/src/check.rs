//! Pass or fail: each program under one profiler, against the demands of [`crate::programs`].

use std::path::Path;

use anyhow::Result;

use crate::profiler::Profiler;
use crate::programs::{Launch, Program, sources};
use crate::roots::Roots;
use crate::run::{Plan, run};
use crate::target::NAMESPACES;
use crate::verdict::Verdict;

/// A verdict needs at least this many samples.
const FEWEST_SAMPLES: u64 = 100;
/// With fewer samples than this a single wrong one would decide. If other work takes most of the CPU, the capture is repeated and
/// takes longer. The same holds if the tables came late: this check does not judge how soon they come.
const ENOUGH_SAMPLES: f64 = 1000.0;
const LONGEST_SECONDS: f64 = 15.0;

/// Whether more samples are wrong than a demand in per cent allows. The demand is on the program; of a capture's samples, chance makes some more or
/// fewer wrong: three standard deviations are not judged.
fn too_many(wrong: u64, samples: u64, demand_pct: f64) -> bool {
    let allowed = samples as f64 * (100.0 - demand_pct) / 100.0;
    wrong as f64 > allowed + 3.0 * allowed.sqrt()
}

/// The outcome for one program.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Judged, and good enough.
    Passed(Verdict),
    /// Judged, and not good enough: why.
    Failed(Verdict, String),
    /// Not run: why.
    Skipped(String),
}

/// Builds (unless `prebuilt`), runs and judges one program.
///
/// # Errors
/// If building, the program or the profiler fails.
pub fn check(
    program: &Program,
    out: &Path,
    prebuilt: bool,
    profiler: &Profiler,
    plan: Plan,
    floor_pct: Option<f64>,
) -> Result<Outcome> {
    if program.launch == Launch::Namespaces
        && let Err(why) = testkit::may_unshare(&NAMESPACES)
    {
        return Ok(Outcome::Skipped(why));
    }
    if !prebuilt {
        if let Some(why) = program.missing_compiler() {
            return Ok(Outcome::Skipped(why));
        }
        program.build(&sources(), out)?;
    }
    let demand = floor_pct.map_or(program.demand_pct, |floor| floor.min(program.demand_pct));
    let enough = ENOUGH_SAMPLES.min(f64::from(plan.rate_hz) * plan.seconds / 2.0);
    let mut plan = plan;
    let verdict = loop {
        let captures = run(program, out, std::slice::from_ref(profiler), plan)?;
        let Some(capture) = captures.first() else { return Ok(Outcome::Skipped("no profiler".into())) };
        let verdict = Verdict::of(capture, program, &Roots::default())?;
        let longer = plan.seconds * 3.0;
        let early = verdict.early as f64 * 100.0 > (100.0 - demand) * verdict.samples as f64;
        if !early && verdict.samples as f64 >= enough || longer > LONGEST_SECONDS {
            break verdict;
        }
        plan.seconds = longer;
    };
    let complaint = if verdict.samples < FEWEST_SAMPLES {
        Some(format!("only {} samples", verdict.samples))
    } else if too_many(verdict.samples - verdict.rooted, verdict.samples, demand) {
        Some(format!("rooted {:.2} % is below {demand} %", verdict.rooted_pct()))
    } else if too_many(verdict.samples - verdict.exact, verdict.samples, demand) {
        Some(format!("exact {:.2} % is below {demand} %", verdict.exact_pct()))
    } else {
        None
    };
    Ok(match complaint {
        None => Outcome::Passed(verdict),
        Some(why) => Outcome::Failed(verdict, why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_not_judged_and_a_lower_share_is() {
        assert!(!too_many(11, 5000, 99.9) && too_many(12, 5000, 99.9));
        assert!(!too_many(3, 1000, 99.9) && too_many(5, 1000, 99.9));
        assert!(!too_many(1090, 100_000, 99.0) && too_many(1200, 100_000, 99.0));
        assert!(!too_many(0, 100, 100.0) && too_many(1, 100, 100.0));
    }
}
