//! Child processes that are killed at the end of their test.

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output, Stdio};

use crate::Lines;

/// A child process. It is killed and waited for when this is dropped, also when the test fails.
#[derive(Debug)]
pub struct Process(Option<Child>);

/// Why there is a child.
const PRESENT: &str = "only wait_with_output takes the child, with this value";

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        loop {
            match command.spawn() {
                Ok(child) => return Ok(Self(Some(child))),
                // Another test forked while this file was still open for writing; its child closes it when it executes.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a process that sleeps.
    ///
    /// # Panics
    /// Without `sleep`.
    #[must_use]
    pub fn asleep() -> Self {
        Self::quiet(Command::new("sleep").arg("600"))
    }

    /// Starts a process that computes.
    ///
    /// # Panics
    /// Without a shell.
    #[must_use]
    pub fn computing() -> Self {
        Self::quiet(Command::new("sh").args(["-c", "while :; do :; done"]))
    }

    fn quiet(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Self::start(command).unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()))
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.id()
    }

    /// The first line of its piped output; further ones are not read.
    ///
    /// # Panics
    /// If there is none within a minute.
    #[track_caller]
    pub fn first_line(&mut self) -> String {
        Lines::of(self.stdout.take().expect("its output is piped and was not read")).next()
    }

    /// Waits until it ends, and reads its piped outputs.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().expect(PRESENT).wait_with_output()
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect(PRESENT)
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect(PRESENT)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(pid: u32) -> bool {
        std::fs::exists(format!("/proc/{pid}")).unwrap()
    }

    #[test]
    fn a_process_ends_with_its_owner() {
        let [one, other] = [Process::asleep(), Process::computing()];
        let pids = [one.pid(), other.pid()];
        assert!(pids.iter().all(|pid| exists(*pid)));
        drop((one, other));
        assert!(!pids.iter().any(|pid| exists(*pid)));
    }

    #[test]
    fn a_process_is_waited_for_with_its_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo text"]).stdout(Stdio::piped());
        let output = Process::start(&mut command).unwrap().wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout == b"text\n", "{output:?}");
    }

    #[test]
    fn the_first_line_is_read() {
        let mut command = Command::new("sh");
        let mut process =
            Process::start(command.args(["-c", "echo one; echo two"]).stdout(Stdio::piped())).unwrap();
        assert_eq!(process.first_line(), "one");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(Process::start(&mut Command::new("/nonexistent")).is_err());
    }
}
