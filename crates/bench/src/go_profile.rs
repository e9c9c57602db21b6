//! Shares of CPU time of Go programs by the function of the goroutine, beside Go's own CPU profile (`runtime/pprof`) of the same seconds.
//!
//! Go's profiler crosses from the thread's own stack to the goroutine's where its runtime knows the way, which is not where unwinding
//! finds it: the two are independent. Not compared is what Go's cannot see: its signal handlers, in which its own signal is blocked; its
//! monitor thread, which runs no goroutine and so has no timer; and whose time it would be after `runtime.mcall`, at which its stacks end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use truth::compile::{Build, Compiler};
use truth::frame::{Capture, Stack};
use truth::profiler::{Profiler, read_pprof};
use truth::programs::sources;
use truth::run::{Plan, profile};
use truth::target::Target;

/// A program as one version of Go compiles it.
#[derive(Clone, Debug)]
pub struct Case {
    /// For tables.
    pub name: String,
    build: Build,
    kinds: &'static [&'static str],
    functions: &'static [&'static str],
}

/// Samples of one profiler by the function of the goroutine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// All that are compared.
    pub samples: u64,
    /// Those of each function of the program; the others are of the runtime's goroutines and of its scheduler.
    pub by_function: BTreeMap<&'static str, u64>,
    /// Those left out.
    pub left_out: u64,
}

/// What both profilers say of one program.
#[derive(Clone, Debug)]
pub struct Both {
    /// perf-agent.
    pub agent: Shares,
    /// Go's own profile.
    pub own: Shares,
    /// perf-agent's stacks that end before their root.
    pub cut: u64,
}

const PURE: &[&str] = &["now", "allocate", "grow", "exchange", "yield", "signals", "loop", "calls", "panics"];
/// Of [`PURE`]; some kinds have two goroutines.
const PURE_FUNCTIONS: &[&str] = &[
    "main.now",
    "main.allocate",
    "main.grow",
    "main.grown",
    "main.exchange",
    "main.answer",
    "main.yield",
    "main.signals",
    "main.loop",
    "main.calls",
    "main.panics",
];
const WITH_C: &[&str] = &["into", "back", "sorted"];
const WITH_C_FUNCTIONS: &[&str] = &["main.into", "main.back", "main.sorted"];
/// The second source of the programs.
const SECOND: &str = "{sources}/goprofile.go";

/// Each version of Go, without and with C.
#[must_use]
pub fn cases() -> Vec<Case> {
    let versions = [
        ("go1.18.10", Compiler::GoAt("go1.18.10")),
        ("go1.20.14", Compiler::GoAt("go1.20.14")),
        ("installed", Compiler::Go),
        ("go1.27.4", Compiler::GoAt("go1.27.4")),
    ];
    let of = |(version, compiler): (&str, Compiler)| {
        let case = |what: &str, source, kinds, functions| Case {
            name: format!("{version}, {what}"),
            build: Build::new(&format!("profile-{source}-{version}"), compiler, source, "").with(SECOND),
            kinds,
            functions,
        };
        [
            case("Go alone", "gostacks.go", PURE, PURE_FUNCTIONS),
            case("with C", "gocgo.go", WITH_C, WITH_C_FUNCTIONS),
        ]
    };
    versions.into_iter().flat_map(of).collect()
}

impl Case {
    /// Why this version of Go is not to be had.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        self.build.compiler.missing()
    }

    /// Profiles the program with both.
    ///
    /// # Errors
    /// If it cannot be built, or a profiler fails.
    pub fn measure(&self, agent: &Profiler, out: &Path, plan: Plan) -> Result<Both> {
        let program = self.build.run(&sources(), out)?;
        let folder = tempfile::tempdir().context("create a folder for the profile")?;
        let file = folder.path().join("go.pb.gz");
        let mut command = Command::new(&program);
        command.args(self.kinds).arg(format!("profile={}", file.display()));
        command.arg(format!("rate={}", plan.rate_hz)).stderr(std::process::Stdio::null());
        let mut target =
            Target::start_command(&mut command).with_context(|| format!("start {}", program.display()))?;
        let captures = profile(&mut target, true, std::slice::from_ref(agent), plan)
            .with_context(|| format!("profile {}", program.display()))?;
        target.finish()?;
        let capture = captures.into_iter().next().context("a profiler without a capture")?;
        let cut = capture.stacks.iter().filter(|stack| stack.truncated.is_some()).map(|s| s.count).sum();
        let own = read_pprof(&file)?;
        Ok(Both { agent: self.shares(&capture), own: self.shares(&own), cut })
    }

    fn shares(&self, capture: &Capture) -> Shares {
        let mut shares = Shares::default();
        for stack in &capture.stacks {
            if is_unseen(stack) {
                shares.left_out += stack.count;
                continue;
            }
            shares.samples += stack.count;
            let names = stack.frames.iter().filter_map(|frame| frame.name.as_deref());
            let function =
                names.flat_map(|name| self.functions.iter().find(|function| **function == name)).next();
            if let Some(function) = function.filter(|_| !stack.has("runtime.mcall")) {
                *shares.by_function.entry(function).or_default() += stack.count;
            }
        }
        shares
    }
}

/// Go blocks its profiler's signal while it handles one, and gives timers only to threads that have run a goroutine.
fn is_unseen(stack: &Stack) -> bool {
    stack.has("runtime.sigtramp") || stack.has("runtime.sysmon")
}

impl Shares {
    /// Adds the samples of another case.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.left_out += other.left_out;
        for (function, count) in &other.by_function {
            *self.by_function.entry(function).or_default() += count;
        }
    }

    /// The share of all samples that a function has.
    #[must_use]
    pub fn of(&self, function: &str) -> f64 {
        let count = self.by_function.get(function).copied().unwrap_or(0);
        count as f64 / self.samples.max(1) as f64
    }

    /// The share of all samples below functions of the program.
    #[must_use]
    pub fn of_all(&self) -> f64 {
        self.by_function.values().sum::<u64>() as f64 / self.samples.max(1) as f64
    }
}

/// The distance of two shares, in standard errors that their numbers of samples leave.
#[must_use]
pub fn distance(first: (f64, u64), second: (f64, u64)) -> f64 {
    let (samples_1, samples_2) = (first.1.max(1) as f64, second.1.max(1) as f64);
    let share = (first.0 * samples_1 + second.0 * samples_2) / (samples_1 + samples_2);
    let variance = share * (1.0 - share) * (1.0 / samples_1 + 1.0 / samples_2);
    if variance > 0.0 { (first.0 - second.0) / variance.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use truth::frame::Frame;

    use super::*;

    fn stack(count: u64, names: &[&str]) -> Stack {
        let frame = |name: &&str| Frame { name: Some((*name).to_owned()), ..Frame::default() };
        Stack { count, frames: names.iter().map(frame).collect(), ..Stack::default() }
    }

    #[test]
    fn samples_belong_to_the_outermost_function_of_the_goroutine() {
        let stacks = vec![
            stack(3, &["runtime.goexit", "main.now", "time.Now"]),
            stack(2, &["runtime.goexit", "main.grow", "main.now"]),
            stack(4, &["runtime.goexit", "main.yield", "runtime.mcall", "runtime.schedule"]),
            stack(5, &["runtime.goexit", "main.loop", "runtime.sigtramp"]),
            stack(1, &["runtime.mstart", "runtime.sysmon"]),
            stack(1, &["runtime.mstart"]),
        ];
        let shares = cases()[0].shares(&Capture { stacks, ..Capture::default() });
        assert_eq!((shares.samples, shares.left_out), (10, 6));
        assert_eq!(shares.by_function, BTreeMap::from([("main.now", 3), ("main.grow", 2)]));
        assert!((shares.of_all() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_distance_is_in_standard_errors() {
        assert!((distance((0.5, 200), (0.4, 200)) - 2.010).abs() < 0.001);
        assert!(distance((0.0, 10), (0.0, 10)).abs() < 1e-12);
    }
}
