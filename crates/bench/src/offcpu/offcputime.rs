//! bcc's offcputime (its build over libbpf, package libbpf-tools): the peer that walks by frame pointers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tool::interrupt;
use testkit::find_command;
use truth::frame::{Capture, Frame, Stack};

const COMMAND: &str = "offcputime";
/// Room for different stacks; the default is 1,024.
const STACKS: &str = "--stack-storage-size=16384";

/// `offcputime` at work.
#[derive(Debug)]
pub struct Offcputime {
    child: Child,
    output: PathBuf,
}

impl Offcputime {
    /// Whether it is installed.
    #[must_use]
    pub fn is_here() -> bool {
        find_command(COMMAND).is_some()
    }

    /// Starts it for one process, or for all; its output goes to a file in that folder.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(pid: Option<u32>, folder: &Path) -> Result<Self> {
        let output = folder.join("offcputime.txt");
        let file = fs::File::create(&output).with_context(|| format!("create {}", output.display()))?;
        let mut command = Command::new(COMMAND);
        command.arg(STACKS);
        if let Some(pid) = pid {
            command.args(["-p", &pid.to_string()]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .context("start offcputime; if it is missing: apt-get install libbpf-tools")?;
        Ok(Self { child, output })
    }

    /// Stops it: time off the CPU by stack and thread, all states in one.
    ///
    /// # Errors
    /// If it ended by itself, as without the privilege, or cannot be stopped.
    pub fn finish(mut self) -> Result<Capture> {
        ensure!(
            self.child.try_wait().context("wait for offcputime")?.is_none(),
            "offcputime ended by itself"
        );
        interrupt(&mut self.child, "offcputime")?;
        let text = fs::read_to_string(&self.output).context("read what offcputime printed")?;
        Ok(Capture { stacks: read_stacks(&text), ..Capture::default() })
    }
}

impl Drop for Offcputime {
    fn drop(&mut self) {
        // It has ended already, except after an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stacks apart by empty lines: functions innermost first, `-  THREAD (PID)`, microseconds.
fn read_stacks(text: &str) -> Vec<Stack> {
    let mut stacks = Vec::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut frames: Vec<Frame> = Vec::new();
        let subject = loop {
            match lines.next() {
                Some(line) if line.starts_with("- ") => break line.trim_start_matches(['-', ' ']),
                Some("[unknown]") => frames.push(Frame::default()),
                Some(name) => frames.push(Frame { name: Some(name.to_owned()), ..Frame::default() }),
                None => break "",
            }
        };
        let Some((comm, pid)) = subject.rsplit_once(" (") else { continue };
        let pid = pid.trim_end_matches(')').parse();
        let (Ok(pid), Some(Ok(us))) = (pid, lines.next().map(str::parse::<u64>)) else { continue };
        frames.reverse();
        stacks.push(Stack { frames, ns: us * 1000, pid, comm: comm.to_owned(), ..Stack::default() });
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_read() {
        let text = "    schedule\n    clock_nanosleep\n    [unknown]\n    -                a thread (77)\n        \
                    2079\n\n    site_fault\n    -                b (x) (78)\n        5\n\n    cut\n";
        let stacks = read_stacks(text);
        assert_eq!(stacks.len(), 2);
        assert_eq!((stacks[0].comm.as_str(), stacks[0].pid, stacks[0].ns), ("a thread", 77, 2_079_000));
        assert!(stacks[0].frames[0].name.is_none() && stacks[0].has("schedule"));
        assert_eq!((stacks[1].comm.as_str(), stacks[1].pid), ("b (x)", 78));
    }
}
