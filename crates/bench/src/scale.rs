//! perf-agent beside a crowd: start, end, CPU time and memory.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use truth::session::{Session, Subject};
use truth::target::{cpu_ns, memory_kib};

/// Figures of one capture of the machine.
#[derive(Clone, Debug)]
pub struct Figures {
    /// From the start of perf-agent until it samples.
    pub start: Duration,
    /// CPU time of that.
    pub start_cpu: Duration,
    /// CPU time while it samples, in % of one CPU.
    pub cpu_pct: f64,
    /// From the signal to its end, profiles written.
    pub end: Duration,
    /// CPU time until then, all together.
    pub all_cpu: Duration,
    /// Largest resident set.
    pub peak_mib: f64,
    /// Memory of maps and of everything else in the kernel, as the ledger tells it.
    pub kernel_mib: f64,
    /// Samples, how many are lost, and how many of 100 are rooted, as the ledger tells them.
    pub samples: u64,
    /// The same.
    pub lost: String,
    /// The same.
    pub rooted_pct: String,
    /// What perf-agent warned of.
    pub warnings: Vec<String>,
}

/// Captures the machine for `seconds` with these options.
///
/// # Errors
/// If perf-agent fails.
pub fn measure(agent: &Path, options: &[&str], seconds: f64) -> Result<Figures> {
    let started = Instant::now();
    let length = format!("{}s", seconds as u64 + 3600);
    let options: Vec<&str> = options.iter().copied().chain(["--duration", &length]).collect();
    let mut session = Session::start(agent, &options, Subject::Machine)?;
    session.until_attached()?;
    let pid = session.pid();
    let start = started.elapsed();
    let cpu = || cpu_ns(pid).map(Duration::from_nanos);
    let (start_cpu, begun) = (cpu()?, Instant::now());
    thread::sleep(Duration::from_secs_f64(seconds));
    let (sampled, ran) = (cpu()?.saturating_sub(start_cpu), begun.elapsed());
    let stopped = Instant::now();
    session.stop()?;
    let (mut peak, mut all_cpu) = (0, Duration::ZERO);
    while let (Some(kib), Ok(now)) = (memory_kib(pid, "VmHWM"), cpu()) {
        (peak, all_cpu) = (peak.max(kib), now);
        thread::sleep(Duration::from_millis(20));
    }
    let end = stopped.elapsed();
    let finished = session.finish()?;
    let capture = finished.on_cpu()?;
    let told =
        |key: &str| capture.ledger(key).map(str::to_owned).with_context(|| format!("the ledger lacks {key}"));
    let kernel: f64 = told("bpf_memory_kib")?.parse().context("read the memory in the kernel")?;
    Ok(Figures {
        start,
        start_cpu,
        cpu_pct: 100.0 * sampled.as_secs_f64() / ran.as_secs_f64(),
        end,
        all_cpu,
        peak_mib: peak as f64 / 1024.0,
        kernel_mib: kernel / 1024.0,
        samples: capture.samples(),
        lost: told("lost")?,
        rooted_pct: told("rooted_pct")?,
        warnings: finished
            .messages
            .lines()
            .filter(|line| line.contains("warning"))
            .map(str::to_owned)
            .collect(),
    })
}
