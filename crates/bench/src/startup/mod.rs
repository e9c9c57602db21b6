//! The time from the start of perf-agent to the first complete stack, read from the stacks themselves: the preloaded
//! library `ticker` burns CPU below functions whose names encode the time.

mod clock;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use truth::compile::{Build, Compiler};
use truth::frame::{Capture, Stack};
use truth::profiler::{Profiler, Scope};
use truth::programs::sources;
use truth::roots::Roots;
use truth::target::Target;

/// Which caches are filled when the profiler starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// The profiler has seen these files before.
    Warm,
    /// The profiler's own cache is empty.
    Empty,
    /// Its own cache is empty, and the kernel has dropped the pages of all files.
    Dropped,
}

/// A measured start.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// From the start of the profiler's process to the first sample with any stack.
    pub first_sample: Option<Duration>,
    /// To the first rooted stack.
    pub first_complete: Option<Duration>,
    /// Rooted samples in % of all of the capture.
    pub rooted_pct: f64,
    /// Bytes of files that the target maps executable.
    pub mapped_bytes: u64,
}

/// A process with the ticker in it and a number of libraries mapped.
///
/// # Errors
/// If it cannot be built or started.
pub fn ticking(out: &Path, command: &[&str], libraries: &[PathBuf]) -> Result<Target> {
    let flags = "-O2 -fomit-frame-pointer -shared -fPIC";
    let ticker = Build::new("libticker.so", Compiler::Gcc, "ticker.c", flags).run(&sources(), out)?;
    let ticker = ticker.canonicalize().context("find the ticker")?;
    let preload: Vec<String> =
        [&ticker].into_iter().chain(libraries).map(|p| p.display().to_string()).collect();
    let (name, arguments) = command.split_first().context("no command")?;
    Target::start_command(Command::new(name).args(arguments).env("LD_PRELOAD", preload.join(":")))
        .with_context(|| format!("start {}", command.join(" ")))
}

/// Starts perf-agent on a ticking process (or, `scope` being the machine, next to it) and measures.
///
/// # Errors
/// If the profiler fails.
pub fn measure(
    agent: &Profiler,
    target: &Target,
    scope: Scope,
    seconds: f64,
    caches: Caches,
) -> Result<Start> {
    let folder = tempfile::tempdir().context("create a folder")?;
    let home = folder.path().join("home");
    fs::create_dir(&home).context("create a folder for caches")?;
    let start_once = |seconds: f64| -> Result<(Duration, Capture)> {
        let started = clock::now();
        let capture = agent.start_with(scope, seconds, 999, folder.path(), |command| {
            command.env("HOME", &home).env("XDG_CACHE_HOME", home.join("cache"));
        });
        let capture = capture?.finish()?;
        Ok((started, capture))
    };
    match caches {
        Caches::Warm => drop(start_once(0.5)?),
        Caches::Empty => {}
        Caches::Dropped => {
            fs::write("/proc/sys/vm/drop_caches", "3").context("drop the kernel's caches; run as root")?;
        }
    }
    let (started, capture) = start_once(seconds)?;
    let roots = Roots::default();
    let mine = || capture.stacks.iter().filter(|s| s.pid == target.pid() || s.pid == 0);
    let times = |complete: bool| {
        mine()
            .filter(|s| !complete || roots.is_rooted(s))
            .filter_map(clock::read)
            .map(|ticks| clock::since(started, ticks))
            .min()
    };
    let count = |stacks: &mut dyn Iterator<Item = &Stack>| stacks.map(|s| s.count).sum::<u64>() as f64;
    let rooted = count(&mut capture.stacks.iter().filter(|s| roots.is_rooted(s)));
    Ok(Start {
        first_sample: times(false),
        first_complete: times(true),
        rooted_pct: 100.0 * rooted / count(&mut capture.stacks.iter()).max(1.0),
        mapped_bytes: mapped(target.pid()),
    })
}

/// Bytes of executable file mappings of a process.
fn mapped(pid: u32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let size = |line: &str| -> Option<u64> {
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let executable = rest.as_bytes().get(2) == Some(&b'x') && line.contains('/');
        executable.then(|| Some(u64::from_str_radix(high, 16).ok()? - u64::from_str_radix(low, 16).ok()?))?
    };
    maps.lines().filter_map(size).sum()
}
