//! The command of a capture, as the host program sees it.

use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two checks whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The process of a command that an agent runs. Clones refer to the same process. The process goes on when the agent is
/// stopped.
#[derive(Clone, Debug)]
pub struct ChildHandle {
    pid: u32,
    child: Arc<Mutex<Child>>,
}

impl ChildHandle {
    pub(crate) fn new(child: Child) -> Self {
        Self { pid: child.id(), child: Arc::new(Mutex::new(child)) }
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its PID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Its exit status; none while it runs.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.lock().try_wait()
    }

    /// Closes its standard input, if that is a pipe that was not taken, and waits for its end.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        drop(self.take_stdin());
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills it by SIGKILL. Does nothing after a wait has returned its status.
    ///
    /// # Errors
    /// The errno of `kill(2)`.
    pub fn kill(&self) -> io::Result<()> {
        self.lock().kill()
    }

    /// Takes its standard input, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stdin(&self) -> Option<ChildStdin> {
        self.lock().stdin.take()
    }

    /// Takes its standard output, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stdout(&self) -> Option<ChildStdout> {
        self.lock().stdout.take()
    }

    /// Takes its standard error, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stderr(&self) -> Option<ChildStderr> {
        self.lock().stderr.take()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn returns_its_pipes_and_its_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; exit 3"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = ChildHandle::new(command.spawn().unwrap());
        let other = child.clone();
        assert!(child.id() == other.id() && child.try_wait().unwrap().is_none());
        let mut stdout = other.take_stdout().unwrap();
        assert!(child.take_stdout().is_none() && child.take_stderr().is_none());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(other.try_wait().unwrap().and_then(|status| status.code()), Some(3));
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    }
}
