//! Shares of CPU time: four functions that burn 10, 20, 30 and 40 %, compared with profiles.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::frame::Capture;
use crate::profiler::Profiler;
use crate::programs::{Program, c, sources};
use crate::run::{Plan, profile};
use crate::target::Target;

/// The shares in one profile.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The profiler.
    pub profiler: &'static str,
    /// Per function: name, true share and measured share, in per cent.
    pub functions: Vec<(String, f64, f64)>,
    /// Number of samples.
    pub samples: u64,
    /// Rate times the CPU seconds that the program used during the capture.
    pub expected: f64,
}

impl Shares {
    /// The largest difference between truth and measurement, in percentage points.
    #[must_use]
    pub fn worst_error(&self) -> f64 {
        self.functions.iter().map(|(_, truth, measured)| (truth - measured).abs()).fold(0.0, f64::max)
    }
}

/// Profiles the program by all profilers during the same seconds.
///
/// # Errors
/// If the program or a profiler fails.
pub fn measure(out: &Path, profilers: &[Profiler], plan: Plan) -> Result<Vec<Shares>> {
    let program = Program::new("shares", vec![c("shares", "shares.c")], "{out}/shares");
    program.build(&sources(), out)?;
    let mut target = Target::start(&program, out)?;
    let (started, cpu_before) = (Instant::now(), target.cpu_ns()?);
    let captures = profile(&mut target, false, profilers, plan)?;
    let busy = (target.cpu_ns()? - cpu_before) as f64 / 1e9 / started.elapsed().as_secs_f64();
    let truth = read_truth(&target.finish()?)?;
    let pairs = profilers.iter().zip(&captures);
    Ok(pairs.map(|(profiler, capture)| compare(profiler, capture, &truth, plan, busy)).collect())
}

fn compare(profiler: &Profiler, capture: &Capture, truth: &[(String, f64)], plan: Plan, busy: f64) -> Shares {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for stack in &capture.stacks {
        let burning = stack.frames.iter().filter_map(|f| f.name.as_deref()).find(|n| n.starts_with("burn_"));
        if let Some(name) = burning {
            *counts.entry(name).or_default() += stack.count;
        }
    }
    let total: u64 = counts.values().sum();
    let share = |name: &str| counts.get(name).copied().unwrap_or(0) as f64 * 100.0 / total.max(1) as f64;
    let seconds = if capture.duration_ns > 0 { capture.duration_ns as f64 / 1e9 } else { plan.seconds };
    Shares {
        profiler: profiler.name(),
        functions: truth.iter().map(|(name, truth)| (name.clone(), *truth, share(name))).collect(),
        samples: capture.samples(),
        expected: f64::from(plan.rate_hz) * seconds * busy.min(1.0),
    }
}

/// `share NAME NANOSECONDS` lines as shares in per cent.
fn read_truth(lines: &[String]) -> Result<Vec<(String, f64)>> {
    let mut used = Vec::new();
    for line in lines {
        if let Some((name, ns)) = line.strip_prefix("share ").and_then(|rest| rest.split_once(' ')) {
            used.push((name.to_owned(), ns.parse::<f64>().with_context(|| format!("read `{line}`"))?));
        }
    }
    let total: f64 = used.iter().map(|(_, ns)| ns).sum();
    anyhow::ensure!(total > 0.0, "the program printed no shares");
    Ok(used.into_iter().map(|(name, ns)| (name, ns * 100.0 / total)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_read_as_shares() {
        let lines = ["share burn_10 100".to_owned(), "other".to_owned(), "share burn_30 300".to_owned()];
        assert_eq!(read_truth(&lines).unwrap(), [("burn_10".to_owned(), 25.0), ("burn_30".to_owned(), 75.0)]);
        assert!(read_truth(&[]).is_err());
    }
}
