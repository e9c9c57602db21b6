//! All modes together on a busy machine for a long time: whether memory grows, whether the modes disturb each other, and whether the
//! ledger adds up. The load is chosen to cost a profiler memory: processes that live for milliseconds, compilations, threads
//! that live for one sleep.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use testkit::find_command;
use truth::frame::Capture;
use truth::programs::Scheduling;
use truth::session::{Session, Subject};
use truth::target::{Target, memory_kib};

/// Between two looks at the memory, as a part of the whole.
const LOOKS: u32 = 24;
/// Short processes after each compilation.
const SHORT_PROCESSES: usize = 8;

/// All modes.
const ALL_MODES: [&str; 7] = [
    "--profile",
    "--offcpu",
    "--wakers",
    "--pmu",
    "--per-pid",
    "--wall-output",
    "--offcpu-states=blocked,iowait",
];

/// The measurement.
#[derive(Debug)]
pub struct Endurance {
    /// Seconds since the begin of the capture, and the resident set of perf-agent in KiB.
    pub resident: Vec<(f64, u64)>,
    /// Samples recorded and lost per second by an on-CPU profile alone, before and after the capture with all modes.
    pub rate_alone: [f64; 2],
    /// Samples recorded and lost per second with all modes.
    pub rate_with_all: f64,
    /// Processes that were started while all modes ran.
    pub processes: u64,
    on_cpu: Capture,
    off_cpu: Capture,
    wall: Capture,
}

/// Processes that come and go until it is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    started: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Load {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("create a folder for object files")?;
        let source = folder.path().join("short.c");
        fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")
            .context("write a source file")?;
        let compiler = find_command("cc").or_else(|| find_command("gcc"));
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let parallel = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..parallel).map(|number| {
            let (stop, started) = (Arc::clone(&stop), Arc::clone(&started));
            let (compiler, source) = (compiler.clone(), source.clone());
            let object = folder.path().join(format!("{number}.o"));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    started.fetch_add(round(compiler.as_ref(), &source, &object), Ordering::Relaxed);
                }
            })
        });
        Ok(Self { threads: threads.collect(), stop, started, _folder: folder })
    }
}

/// Starts a compilation and some processes that do nothing. Returns how many it started.
fn round(compiler: Option<&PathBuf>, source: &Path, object: &Path) -> u64 {
    let quietly = |command: &mut Command| {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        u64::from(command.status().is_ok())
    };
    let compiled = compiler
        .map(|compiler| quietly(Command::new(compiler).args(["-O1", "-c", "-o"]).arg(object).arg(source)));
    compiled.unwrap_or(0) + (0..SHORT_PROCESSES).map(|_| quietly(&mut Command::new("true"))).sum::<u64>()
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn number(capture: &Capture, key: &str) -> Option<f64> {
    capture.ledger(key)?.parse().ok()
}

fn samples_per_second(capture: &Capture) -> Result<f64> {
    let (recorded, lost) = (number(capture, "samples"), number(capture, "lost"));
    let all =
        recorded.context("the ledger has no key samples")? + lost.context("the ledger has no key lost")?;
    Ok(all * 1e9 / capture.duration_ns.max(1) as f64)
}

fn on_cpu_alone(agent: &Path, seconds: f64) -> Result<f64> {
    let duration = format!("{}ms", (seconds * 1000.0) as u64);
    let options = ["--profile", "--duration", &duration];
    samples_per_second(&Session::start(agent, &options, Subject::Machine)?.finish()?.on_cpu()?)
}

/// Runs all modes for `seconds` while processes come and go; before and afterwards an on-CPU profile alone for a fifth of
/// that.
///
/// # Errors
/// If perf-agent or a program fails.
pub fn measure(agent: &Path, programs: &Scheduling, seconds: f64) -> Result<Endurance> {
    let load = Load::start()?;
    let lasting = ((seconds * 3.0 + 60.0) * 1000.0) as u64;
    let _mayflies = Target::start_command(Command::new(programs.path("mayflies")?).arg(lasting.to_string()))?;
    let before = on_cpu_alone(agent, seconds / 5.0)?;
    let duration = format!("{}ms", (seconds * 1000.0) as u64);
    let mut options = ALL_MODES.to_vec();
    options.extend(["--duration", &duration]);
    let mut session = Session::start(agent, &options, Subject::Machine)?;
    session.until_attached()?;
    let (begun, processes) = (Instant::now(), load.started.load(Ordering::Relaxed));
    let mut resident = Vec::new();
    // The last look is one interval before the end: then profiles are put together.
    for look in 1..LOOKS {
        let at = Duration::from_secs_f64(seconds * f64::from(look) / f64::from(LOOKS));
        thread::sleep(at.saturating_sub(begun.elapsed()));
        let kib = memory_kib(session.pid(), "VmRSS").context("perf-agent has ended early")?;
        resident.push((begun.elapsed().as_secs_f64(), kib));
    }
    let processes = load.started.load(Ordering::Relaxed) - processes;
    let finished = session.finish()?;
    let after = on_cpu_alone(agent, seconds / 5.0)?;
    let (on_cpu, off_cpu, wall) = (finished.on_cpu()?, finished.off_cpu()?, finished.wall()?);
    let rate_with_all = samples_per_second(&on_cpu)?;
    Ok(Endurance { resident, rate_alone: [before, after], rate_with_all, processes, on_cpu, off_cpu, wall })
}

impl Endurance {
    /// Median of the resident set in KiB over a part of the capture.
    fn median_kib(&self, part: std::ops::Range<f64>) -> f64 {
        let all = self.resident.len() as f64;
        let part = (all * part.start) as usize..(all * part.end) as usize;
        let mut kib: Vec<f64> = self.resident[part].iter().map(|(_, kib)| *kib as f64).collect();
        crate::statistics::quantile(&mut kib, 0.5)
    }

    /// Growth of the resident set from the second quarter to the last one, in per cent.
    #[must_use]
    pub fn growth_pct(&self) -> f64 {
        let before = self.median_kib(0.25..0.5);
        100.0 * (self.median_kib(0.75..1.0) - before) / before
    }

    /// On-CPU samples for each second with all modes, as a ratio to an on-CPU profile alone.
    #[must_use]
    pub fn rate_ratio(&self) -> f64 {
        2.0 * self.rate_with_all / (self.rate_alone[0] + self.rate_alone[1])
    }

    /// The losses in the ledgers: mode, key, number.
    #[must_use]
    pub fn losses(&self) -> Vec<(&'static str, String, u64)> {
        let mut losses = Vec::new();
        for (mode, capture) in [("on-cpu", &self.on_cpu), ("off-cpu", &self.off_cpu)] {
            let causes = ["ring_full", "map_full", "no_memory", "memory_limit", "busy", "unseen"]
                .map(|cause| format!("lost.{cause}"));
            let others = ["wakers_lost", "unreadable_processes", "walks_deferred", "stacks"];
            for key in ["samples", "lost"].into_iter().chain(causes.iter().map(String::as_str)).chain(others)
            {
                if let Some(value) = capture.ledger(key).and_then(|value| value.parse().ok()) {
                    losses.push((mode, key.to_owned(), value));
                }
            }
        }
        losses
    }

    /// The wall-clock identity in per cent.
    #[must_use]
    pub fn identity_pct(&self) -> Option<f64> {
        number(&self.wall, "wall.identity_pct")
    }

    /// Whether a profile has as many samples as its ledger counts.
    ///
    /// # Errors
    /// If they are not.
    fn adds_up(capture: &Capture, what: &str) -> Result<()> {
        let (counted, recorded) = (number(capture, "samples").unwrap_or(-1.0), capture.sums(|_| true).0);
        ensure!(
            counted == recorded as f64,
            "{what}: the ledger counts {counted} samples, the profile has {recorded}"
        );
        Ok(())
    }

    /// Passes or fails.
    ///
    /// # Errors
    /// If memory grows by more than `growth_pct`, if the modes disturb each other, or if a sum is not right.
    pub fn judge(&self, growth_pct: f64) -> Result<()> {
        Self::adds_up(&self.on_cpu, "on-CPU")?;
        Self::adds_up(&self.off_cpu, "off-CPU")?;
        for (mode, key, value) in self.losses() {
            let samples = if mode == "on-cpu" { &self.on_cpu } else { &self.off_cpu };
            let allowed = number(samples, "samples").unwrap_or(0.0) / 200.0 + 5.0;
            ensure!(key != "lost" || value as f64 <= allowed, "{mode}: {value} lost: {:?}", self.losses());
        }
        let identity = self.identity_pct().context("the ledger has no identity")?;
        ensure!((99.0..=100.5).contains(&identity), "wall clock: sum / truth = {identity} %");
        let ratio = self.rate_ratio();
        ensure!((0.9..1.1).contains(&ratio), "samples with all modes / alone = {ratio:.3}");
        let grown = self.growth_pct();
        ensure!(grown <= growth_pct, "the resident set has grown by {grown:.1} %: {:?}", self.resident);
        Ok(())
    }
}
