//! Pass or fail: each program under one profiler, against the demands of [`crate::programs`].

use std::path::Path;

use anyhow::Result;

use crate::profiler::Profiler;
use crate::programs::{Program, sources};
use crate::roots::Roots;
use crate::run::{Plan, run};
use crate::verdict::Verdict;

/// A verdict needs at least this many samples.
const FEWEST_SAMPLES: u64 = 100;
/// With fewer samples than this a single wrong one would decide. If other work takes most of the CPU, the capture is repeated and
/// takes longer. The same holds if the tables came late: this check does not judge how soon they come.
const ENOUGH_SAMPLES: f64 = 1000.0;
const LONGEST_SECONDS: f64 = 15.0;

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
    } else if verdict.rooted_pct() < demand {
        Some(format!("rooted {:.2} % is below {demand} %", verdict.rooted_pct()))
    } else if verdict.exact_pct() < demand {
        Some(format!("exact {:.2} % is below {demand} %", verdict.exact_pct()))
    } else {
        None
    };
    Ok(match complaint {
        None => Outcome::Passed(verdict),
        Some(why) => Outcome::Failed(verdict, why),
    })
}
