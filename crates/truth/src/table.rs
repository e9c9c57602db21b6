//! The table of truth: every program under perf-agent and, during the same seconds, under
//! `perf record --call-graph dwarf,65528`.

use std::path::Path;

use anyhow::Result;

use crate::perf_output::PerfOutput;
use crate::profiler::{BpfStats, PerfMode, Profiler};
use crate::programs::{Program, sources};
use crate::roots::Roots;
use crate::run::{Plan, run};
use crate::verdict::Verdict;

/// One program under both profilers.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub program: String,
    /// perf-agent: the verdict, and kernel time per sample in ns if it could be measured.
    pub agent: (Verdict, Option<f64>),
    /// `perf record`, the same.
    pub perf: (Verdict, Option<f64>),
}

impl Row {
    /// The heading of the table.
    pub const HEADING: &'static str = "\
| program | samples | rooted % | exact % | wrong | ns/sample | perf: samples | perf: rooted % | perf: exact % | perf: wrong | perf: ns/sample |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

    /// The row in markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let half = |(verdict, ns): &(Verdict, Option<f64>)| {
            let ns = ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
            let (samples, wrong) = (verdict.samples, verdict.wrong);
            format!("{samples} | {:.2} | {:.2} | {wrong} | {ns}", verdict.rooted_pct(), verdict.exact_pct())
        };
        format!("| {} | {} | {} |", self.program, half(&self.agent), half(&self.perf))
    }
}

/// Builds and runs a program under both profilers.
///
/// # Errors
/// If building, the program or a profiler fails.
pub fn measure(program: &Program, out: &Path, agent: &Profiler, plan: Plan) -> Result<Row> {
    program.build(&sources(), out)?;
    let _stats = BpfStats::enable()?;
    // Where the kernel does not let BPF trace functions, perf's column stays empty.
    let output = PerfOutput::attach(out).ok();
    let captures = run(program, out, &[agent.clone(), Profiler::Perf(PerfMode::Dwarf)], plan)?;
    let perf_ns = output.and_then(|o| o.ns_per_sample().ok().flatten());
    let roots = Roots::default();
    let mut verdicts = Vec::new();
    for capture in &captures {
        verdicts.push((Verdict::of(capture, program, &roots)?, capture.kernel_ns_per_sample()));
    }
    let mut verdicts = verdicts.into_iter();
    let agent = verdicts.next().unwrap_or_default();
    let perf = verdicts.next().map(|(verdict, _)| (verdict, perf_ns)).unwrap_or_default();
    Ok(Row { program: program.name.clone(), agent, perf })
}
