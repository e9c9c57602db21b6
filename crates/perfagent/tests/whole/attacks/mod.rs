//! Programs of any user that try to blind the profiler for others: the victim's stacks stay whole, and what the attacker costs is
//! bounded and told. Captures of the whole system leave out names, which take minutes where many programs run. Without privileges these skip and say
//! so.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod mappings;
mod nowhere;
mod processes;
mod rules;
mod tables;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use perfagent::{AgentBuilder, Labels, Ledger, Mode, Report};
use testkit::Process;

/// The victim: see its source.
const VICTIM: &str = include_str!("victim.c");

/// Programs of one test.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Compiles a program. `None`: there is no compiler.
    fn compile(&self, name: &str, source: &str) -> Option<PathBuf> {
        let compiler = testkit::needed("cc")?;
        let (file, program) = (self.0.path().join(name).with_extension("c"), self.0.path().join(name));
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new(compiler);
        command.args(["-O1", "-fno-omit-frame-pointer"]).arg("-o").args([&program, &file]);
        assert!(command.status().unwrap().success(), "{name}");
        Some(program)
    }
}

fn start(program: &Path, words: &[&str]) -> Process {
    let mut command = Command::new(program);
    Process::start(command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
}

/// Waits until a program has said something.
fn await_line(process: &mut Process) {
    process.first_line();
}

/// The thread of a capture. Beside it, other tests run in this process.
struct CaptureThread(Arc<OnceLock<PathBuf>>);

impl CaptureThread {
    fn of(builder: AgentBuilder) -> (Self, AgentBuilder) {
        let found = Arc::new(OnceLock::new());
        let thread = Self(Arc::clone(&found));
        let enricher = move |_: &_| {
            found.get_or_init(|| std::fs::read_link("/proc/thread-self").unwrap());
            Labels::new()
        };
        (thread, builder.add_label_enricher(enricher))
    }

    /// The CPU time that it has used.
    fn cpu_time(&self) -> Duration {
        let file = Path::new("/proc").join(self.0.get().unwrap()).join("schedstat");
        let text = std::fs::read_to_string(file).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }
}

fn ledger(report: &Report) -> &Ledger {
    report.ledger(Mode::OnCpu).unwrap()
}

/// The samples of a process, and the percentage of its walks that reached the root.
fn rooted(report: &Report, pid: u32) -> (u64, f64) {
    let process = ledger(report).process(pid).unwrap();
    (process.samples, process.rooted_pct().unwrap_or(0.0))
}
