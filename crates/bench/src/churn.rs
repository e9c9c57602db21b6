//! Memory of perf-agent while short processes come and go: what a process leaves behind in the agent shows as growth.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::find_command;
use truth::session::{Session, Subject};
use truth::target::memory_kib;

/// Each of so many processes runs from a new file, which is then deleted, as those of builds do.
const NEW_FILE_EACH: u64 = 20;
/// Time between two looks.
pub const LOOK_EACH: Duration = Duration::from_secs(10);

/// What is seen of perf-agent at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Seconds since the begin of the capture.
    pub at: f64,
    /// Processes that were started until then.
    pub processes: u64,
    /// Resident set in KiB.
    pub resident_kib: u64,
    /// The part of it that is no file.
    pub anonymous_kib: u64,
    /// Open descriptors.
    pub descriptors: usize,
}

/// Short processes until it is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    started: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Load {
    fn start(rate_hz: f64) -> Result<Self> {
        let program = find_command("true").context("there is no command `true`")?;
        let folder = tempfile::tempdir().context("create a folder for programs")?;
        let copy = folder.path().join("short");
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (Arc::clone(&stop), Arc::clone(&started));
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            for number in 0u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let due = Duration::from_secs_f64(number as f64 / rate_hz);
                thread::sleep(due.saturating_sub(begun.elapsed()));
                let is_new = number % NEW_FILE_EACH == 0 && fs::copy(&program, &copy).is_ok();
                let mut command = Command::new(if is_new { &copy } else { &program });
                let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                count.fetch_add(u64::from(command.status().is_ok()), Ordering::Relaxed);
                if is_new {
                    // A file of the same name would be the same file.
                    let _ = fs::remove_file(&copy);
                }
            }
        });
        Ok(Self { stop, started, thread: Some(thread), _folder: folder })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn look(pid: u32, at: f64, processes: u64) -> Result<Look> {
    let kib = |line| memory_kib(pid, line).context("perf-agent has ended early");
    let descriptors =
        fs::read_dir(format!("/proc/{pid}/fd")).context("list the descriptors of perf-agent")?.count();
    Ok(Look { at, processes, resident_kib: kib("VmRSS")?, anonymous_kib: kib("RssAnon")?, descriptors })
}

/// Runs all stacks of the machine for `seconds` while `rate_hz` processes per second come and go; `rotate` is the length of an interval.
/// `told` gets each look when it is taken.
///
/// # Errors
/// If perf-agent fails.
pub fn measure(
    agent: &Path,
    seconds: f64,
    rate_hz: f64,
    rotate: Option<&str>,
    mut told: impl FnMut(Look),
) -> Result<Vec<Look>> {
    ensure!(rate_hz > 0.0 && seconds > 0.0, "the rate and the length must be positive");
    let duration = format!("{}ms", ((seconds + 3600.0) * 1000.0) as u64);
    let mut options = vec!["--profile", "--offcpu", "--duration", &duration];
    options.extend(rotate.iter().flat_map(|length| ["--rotate", length]));
    let load = Load::start(rate_hz)?;
    let mut session = Session::start(agent, &options, Subject::Machine)?;
    session.until_attached()?;
    let (begun, mut looks) = (Instant::now(), Vec::new());
    while begun.elapsed().as_secs_f64() + LOOK_EACH.as_secs_f64() <= seconds {
        let next = LOOK_EACH * (looks.len() as u32 + 1);
        thread::sleep(next.saturating_sub(begun.elapsed()));
        let seen = look(session.pid(), begun.elapsed().as_secs_f64(), load.started.load(Ordering::Relaxed))?;
        told(seen);
        looks.push(seen);
    }
    drop(load);
    session.stop()?;
    session.finish()?;
    Ok(looks)
}

/// Growth of the anonymous memory from the second quarter of the looks to the last one, in per cent. None with fewer than eight looks.
#[must_use]
pub fn growth_pct(looks: &[Look]) -> Option<f64> {
    let quarter = looks.len() / 4;
    let median = |part: &[Look]| {
        let mut kib: Vec<f64> = part.iter().map(|look| look.anonymous_kib as f64).collect();
        crate::statistics::quantile(&mut kib, 0.5)
    };
    let (before, after) = (looks.get(quarter..2 * quarter)?, looks.get(looks.len() - quarter..)?);
    (quarter >= 2).then(|| 100.0 * (median(after) - median(before)) / median(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_after_the_first_quarter() {
        let of = |kib: &[u64]| {
            let look = |anonymous_kib: &u64| Look {
                at: 0.0,
                processes: 0,
                resident_kib: 0,
                anonymous_kib: *anonymous_kib,
                descriptors: 0,
            };
            growth_pct(&kib.iter().map(look).collect::<Vec<_>>())
        };
        assert_eq!(of(&[1, 2, 100, 100, 100, 100, 150, 150]), Some(50.0));
        assert_eq!(of(&[1, 2, 100, 100, 100, 100, 100]), None);
    }
}
