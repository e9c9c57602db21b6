//! Child processes that are killed at the end of their test.

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

/// A child process. It is killed and waited for when this is dropped, also when the test fails.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        loop {
            match command.spawn() {
                Ok(child) => return Ok(Self(child)),
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
        self.0.id()
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
    fn a_missing_program_is_an_error() {
        assert!(Process::start(&mut Command::new("/nonexistent")).is_err());
    }
}
