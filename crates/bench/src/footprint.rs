//! The costs of perf-agent itself: CPU and memory of its process, from /proc and from its own ledger.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use truth::profiler::{Profiler, Scope};
use truth::target::{cpu_ns, memory_kib};

/// Figures of one capture.
#[derive(Clone, Debug)]
pub struct Footprint {
    /// CPU time of the process in % of one CPU, over its whole life, start and symbolization included.
    pub cpu_pct: f64,
    /// The same from one second after the start to the end of sampling.
    pub steady_cpu_pct: f64,
    /// Peak resident set in MiB, from /proc.
    pub peak_rss_mib: f64,
    /// From the profile's ledger: CPU in %, peak in KiB, memory of BPF maps if known.
    pub ledger: Vec<(String, String)>,
    /// Samples taken.
    pub samples: u64,
}

/// Runs perf-agent and looks at its process every 100 ms.
///
/// # Errors
/// If it fails.
pub fn measure(agent: &Profiler, scope: Scope, seconds: f64, rate_hz: u32) -> Result<Footprint> {
    let folder = tempfile::tempdir().context("create a folder for the profile")?;
    let started = Instant::now();
    let running = agent.start(scope, seconds, rate_hz, folder.path())?;
    let (mut last, mut steady, mut peak_kib) = ((0.0, 0), (None, None), 0);
    while let (Ok(cpu), Some(kib)) = (cpu_ns(running.pid()), memory_kib(running.pid(), "VmHWM")) {
        let now = started.elapsed().as_secs_f64();
        last = (now, cpu);
        peak_kib = kib.max(peak_kib);
        if now >= 1.0 && now < seconds {
            steady.0.get_or_insert(last);
            steady.1 = Some(last);
        }
        thread::sleep(Duration::from_millis(100));
    }
    let capture = running.finish()?;
    let pct = |ns: u64, seconds: f64| ns as f64 / 1e7 / seconds.max(0.1);
    let keys = ["agent_cpu_pct", "agent_rss_peak_kib", "bpf_cpu_ms", "bpf_memory_kib", "rooted_pct", "lost"];
    let told = keys.iter().filter_map(|k| Some(((*k).to_owned(), capture.ledger(k)?.to_owned())));
    Ok(Footprint {
        cpu_pct: pct(last.1, last.0),
        steady_cpu_pct: match steady {
            (Some(from), Some(to)) => pct(to.1 - from.1, to.0 - from.0),
            _ => f64::NAN,
        },
        peak_rss_mib: peak_kib as f64 / 1024.0,
        ledger: told.collect(),
        samples: capture.samples(),
    })
}
