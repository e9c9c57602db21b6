//! `perf sched`, a second witness: time off the CPU by thread, out of `perf sched timehist`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tool::interrupt;

/// `perf sched record` at work on the whole machine.
#[derive(Debug)]
pub struct Timehist {
    child: Child,
    file: PathBuf,
}

impl Timehist {
    /// Starts recording into a file of that folder.
    ///
    /// # Errors
    /// If perf cannot be started.
    pub fn start(folder: &Path) -> Result<Self> {
        let file = folder.join("perf-sched.data");
        let child = testkit::perf(folder)
            .args(["sched", "record", "-q", "-m", "16M", "-o"])
            .arg(&file)
            // Newer versions record only sched_waking by themselves, which comes before a thread is runnable.
            .args(["-e", "sched:sched_wakeup", "--", "sleep", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start perf sched record; if it is missing: apt-get install linux-perf")?;
        Ok(Self { child, file })
    }

    /// Stops recording; the file is complete then.
    ///
    /// # Errors
    /// If perf cannot be stopped.
    pub fn stop(mut self) -> Result<PathBuf> {
        interrupt(&mut self.child, "perf sched record")?;
        Ok(self.file.clone())
    }

    /// Stops recording. Returns the time off the CPU in ns by name of thread, for one process.
    ///
    /// # Errors
    /// If perf fails.
    pub fn finish(self, pid: u32) -> Result<HashMap<String, u64>> {
        let file = self.stop()?;
        let output = testkit::perf(file.parent().unwrap_or(Path::new("/")))
            .args(["sched", "-f", "-i"])
            .arg(&file)
            .arg("timehist")
            .output()
            .context("run perf sched timehist")?;
        ensure!(output.status.success(), "perf sched timehist failed on {}", file.display());
        Ok(off_cpu_by_thread(&String::from_utf8_lossy(&output.stdout), pid))
    }
}

impl Drop for Timehist {
    fn drop(&mut self) {
        // Stopped already, but for an error on the way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sums the column `wait time`: from switch-out to switch-in, run-queue latency included.
fn off_cpu_by_thread(text: &str, pid: u32) -> HashMap<String, u64> {
    let mut sums = HashMap::new();
    let of_process = format!("/{pid}]");
    for line in text.lines().filter(|line| line.contains(&of_process)) {
        // `TIME [CPU]  NAME[TID/PID]  WAIT  DELAY  RUN`
        let Some((head, tail)) = line.split_once(&of_process) else { continue };
        let name =
            head.split_once(']').and_then(|(_, rest)| rest.rsplit_once('[')).map(|(name, _)| name.trim());
        let wait_ms = tail.split_whitespace().next().and_then(|ms| ms.parse::<f64>().ok());
        if let (Some(name), Some(wait_ms)) = (name, wait_ms) {
            *sums.entry(name.to_owned()).or_default() += (wait_ms * 1e6) as u64;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_summed_by_thread() {
        let text = "\
   12709.112371 [0000]  lto cgu.13[20809/20365]             3.000      0.000      0.105 \n\
   12709.113441 [0000]  hog one[20810/20807]                1.500      0.002      0.016 \n\
   12709.113461 [0001]  hogs[20807]                         9.000      0.096      0.019 \n\
   12709.114467 [0000]  hog one[20810/20807]                0.019      0.000      1.006 \n";
        let sums = off_cpu_by_thread(text, 20807);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums["hog one"], 1_519_000);
    }
}
