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
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    child: Child,
    /// Once it has ended.
    status: Option<ExitStatus>,
}

impl ChildHandle {
    pub(crate) fn new(child: Child) -> Self {
        Self { pid: child.id(), state: Arc::new(Mutex::new(State { child, status: None })) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its PID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Its exit status; none while it runs, also if a thread of this process traces it.
    ///
    /// # Errors
    /// The errno of `waitid(2)`.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        let mut state = self.lock();
        if state.status.is_none() {
            state.status = sys::child::try_wait(&mut state.child)?;
        }
        Ok(state.status)
    }

    /// Closes its standard input, if that is a pipe that was not taken, and waits for its end.
    ///
    /// # Errors
    /// The errno of `waitid(2)`.
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
        self.lock().child.kill()
    }

    /// Takes its standard input, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stdin(&self) -> Option<ChildStdin> {
        self.lock().child.stdin.take()
    }

    /// Takes its standard output, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stdout(&self) -> Option<ChildStdout> {
        self.lock().child.stdout.take()
    }

    /// Takes its standard error, if the command has a pipe there. The second call returns none.
    #[must_use]
    pub fn take_stderr(&self) -> Option<ChildStderr> {
        self.lock().child.stderr.take()
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

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_child_that_is_traced_has_not_ended() {
        use sys::ptrace::{Stop, Tracee};
        let mut command = Command::new("sh");
        let child = ChildHandle::new(
            command.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()).spawn().unwrap(),
        );
        let reads =
            || std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap().starts_with("0 ");
        testkit::until("it waits for a line", reads);
        let mut tracee = Tracee::seize(child.id(), child.id()).unwrap();
        tracee.interrupt().unwrap();
        let status = format!("/proc/{}/status", child.id());
        testkit::until("it stands", || std::fs::read_to_string(&status).unwrap().contains("State:\tt"));
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(tracee.stop().unwrap(), Some(Stop::Interrupted));
        drop(tracee);
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(child.try_wait().unwrap().and_then(|status| status.code()), Some(3));
    }
}
