//! A child process that exists but has not executed its command yet, so that its PID can be attached to before the
//! first instruction.
//!
//! The command starts only after [`GatedChild::release`]. If the agent drops the child or dies, the child sees the end
//! of its pipe and exits without executing anything. The command gets no capability from the agent's file or ambient
//! capabilities. It gets an empty signal mask, although the forking thread blocks all signals, and the default
//! `SIGPIPE` (the standard library sets it). The kernel takes the thread that forked for the parent; this thread lives
//! until the child was waited for, because a command may have asked for a signal at its parent's death
//! (`PR_SET_PDEATHSIG`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::child;

/// Exit status of a child that was not released.
const NOT_RELEASED: libc::c_int = 125;

/// A child process waiting to run its command.
#[derive(Debug)]
pub struct GatedChild {
    pid: u32,
    gate: Option<File>,
    spawned: Option<Receiver<io::Result<Child>>>,
}

impl GatedChild {
    /// Forks. `Command::spawn` returns only after the exec, so a separate thread waits there, and afterwards for the
    /// child's end.
    ///
    /// # Errors
    /// The process could not be created. A command that cannot be executed is an error of [`release`](Self::release).
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let (gate_read, gate_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (pid_read, pid_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let fds = ChildEnds {
            gate_read: gate_read.as_raw_fd(),
            gate_write: gate_write.as_raw_fd(),
            pid_write: pid_write.as_raw_fd(),
        };
        // SAFETY: the closure runs between fork and exec and calls system calls only: no allocation, no locks.
        unsafe { command.pre_exec(move || fds.wait()) };
        let (sender, spawned) = sync_channel(1);
        crate::thread::spawn_quiet_thread("gate", move || {
            let held: [OwnedFd; 2] = [gate_read, pid_write];
            let spawned = command.spawn();
            drop(held);
            let pid = spawned.as_ref().ok().map(Child::id);
            // Without a receiver, the caller has given up.
            let _ = sender.send(spawned);
            if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
                // An error says that it has been waited for.
                let _ = child::until_ended(pid);
            }
        })?;
        let mut pid = [0; 4];
        match File::from(pid_read).read_exact(&mut pid) {
            Ok(()) => Ok(Self {
                pid: u32::from_ne_bytes(pid),
                gate: Some(File::from(gate_write)),
                spawned: Some(spawned),
            }),
            // The pipe closed without a PID: the child ended before it reached the gate.
            Err(error) => {
                drop(gate_write);
                let mut child = receive(&spawned)?;
                let status = child::wait(&mut child)?;
                Err(io::Error::new(error.kind(), format!("the child ended before its command: {status}")))
            }
        }
    }

    /// PID of the child in the namespace of this process; the command keeps it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the command run.
    ///
    /// # Errors
    /// The error of `exec`, for example a missing program.
    pub fn release(mut self) -> io::Result<Child> {
        if let Some(mut gate) = self.gate.take() {
            // If the child was killed at its gate, this write fails, and the child's status says why.
            let _ = gate.write_all(&[1]);
        }
        match self.spawned.take() {
            Some(spawned) => receive(&spawned),
            None => Err(io::Error::other("the child was released already")),
        }
    }
}

impl Drop for GatedChild {
    fn drop(&mut self) {
        self.gate = None;
        if let Some(Ok(mut child)) = self.spawned.take().map(|spawned| receive(&spawned)) {
            let _ = child::wait(&mut child);
        }
    }
}

fn receive(spawned: &Receiver<io::Result<Child>>) -> io::Result<Child> {
    spawned.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command panicked")))
}

#[derive(Clone, Copy)]
struct ChildEnds {
    gate_read: RawFd,
    gate_write: RawFd,
    pid_write: RawFd,
}

impl ChildEnds {
    /// Runs in the child between fork and exec: sends the PID, waits for a byte, drops the agent's capabilities.
    fn wait(self) -> io::Result<()> {
        // SAFETY: `close`, `getpid` and `write` are async-signal-safe; the descriptors are the child's own copies,
        // which nothing in this process uses after this function. The child's copy of the writing end is closed
        // first: while it is open, the pipe does not end when the agent dies.
        let written = unsafe {
            libc::close(self.gate_write);
            let pid = libc::getpid().to_ne_bytes();
            libc::write(self.pid_write, pid.as_ptr().cast(), pid.len())
        };
        if written != 4 {
            return Err(io::Error::last_os_error());
        }
        loop {
            let mut byte = 0u8;
            // SAFETY: one byte is read into a live variable; `read` is async-signal-safe.
            match unsafe { libc::read(self.gate_read, (&raw mut byte).cast(), 1) } {
                1 => break,
                // SAFETY: ends the child without running anything that the agent registered for its own exit.
                0 => unsafe { libc::_exit(NOT_RELEASED) },
                _ => {
                    let error = io::Error::last_os_error();
                    if error.raw_os_error() != Some(libc::EINTR) {
                        return Err(error);
                    }
                }
            }
        }
        drop_capabilities()?;
        unblock_signals()
    }
}

/// Unblocks all signals, with default handlers. Before the exec, a pending signal would reach a handler of this
/// process, which acts on data that the agent still uses.
fn unblock_signals() -> io::Result<()> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: reads into, and sets from, a live `sigaction`, which is valid when zeroed; the function is
        // async-signal-safe. Signals whose action cannot be read are not changed.
        unsafe {
            if libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
                && (*action.as_ptr()).sa_sigaction != libc::SIG_IGN
            {
                (*action.as_mut_ptr()).sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, action.as_ptr(), std::ptr::null_mut());
            }
        }
    }
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initializes the set; both functions are async-signal-safe.
    let result = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Empties the ambient set, and all sets for users other than root. Commands of root keep root's capabilities.
fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let data = [0u32; 6];
    // SAFETY: plain system calls on live arguments of the sizes that version 3 of capset has.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if libc::geteuid() != 0 && libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    #[test]
    fn the_command_starts_after_the_release_with_the_same_pid() {
        let gated = GatedChild::spawn(shell("echo $$")).unwrap();
        let pid = gated.pid();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap(), "the command has not been executed yet");
        let output = gated.release().unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), pid.to_string());
    }

    #[test]
    fn a_dropped_child_never_executes_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("ran");
        let gated = GatedChild::spawn(shell(&format!("touch {}", mark.display()))).unwrap();
        let pid = gated.pid();
        drop(gated);
        assert!(!mark.exists());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "reaped");
    }

    #[test]
    fn a_missing_program_is_an_error_of_the_release() {
        let gated = GatedChild::spawn(Command::new("/no/such/command")).unwrap();
        assert_eq!(gated.release().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_missing_working_directory_is_an_error_of_the_spawn() {
        let mut command = shell("true");
        command.current_dir("/no/such/folder");
        assert_eq!(GatedChild::spawn(command).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_command_gets_clean_signals_and_no_ambient_capabilities() {
        // Without a shell: it may unblock signals itself.
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(Stdio::piped());
        let gated = GatedChild::spawn(command).unwrap();
        let output = gated.release().unwrap().wait_with_output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!(field("SigBlk:"), 0);
        assert_eq!(field("SigIgn:") & 1 << (libc::SIGPIPE - 1), 0);
        assert_eq!(field("CapAmb:"), 0);
    }

    #[test]
    fn a_command_with_a_parent_death_signal_survives() {
        let mut command = shell("sleep 0.3; echo lives");
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                    .map_err(Into::into)
            })
        };
        let child = GatedChild::spawn(command).unwrap().release().unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"lives\n");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_command_with_a_parent_death_signal_survives_being_traced() {
        use crate::ptrace::{Stop, Tracee};
        let mut command = shell("read line; echo lives");
        command.stdin(Stdio::piped());
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                    .map_err(Into::into)
            })
        };
        let child = GatedChild::spawn(command).unwrap().release().unwrap();
        let call = format!("/proc/{}/syscall", child.id());
        testkit::until("it waits for a line", || std::fs::read_to_string(&call).unwrap().starts_with("0 "));
        let mut tracee = Tracee::seize(child.id(), child.id()).unwrap();
        tracee.interrupt().unwrap();
        let status = format!("/proc/{}/status", child.id());
        testkit::until("it stands", || std::fs::read_to_string(&status).unwrap().contains("State:\tt"));
        // The thread that waits for its end sees the stop, which nobody has taken yet.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(tracee.stop().unwrap(), Some(Stop::Interrupted));
        drop(tracee);
        assert_eq!(child.wait_with_output().unwrap().stdout, b"lives\n");
    }

    const MARK: &str = "PERFAGENT_TEST_MARK";

    /// The agent of the test below. It ends without dropping its child.
    #[test]
    #[ignore = "run by a_child_of_a_dead_agent_never_executes_its_command"]
    fn agent_that_dies() {
        let Ok(mark) = std::env::var(MARK) else { return };
        let gated = GatedChild::spawn(shell(&format!("touch {mark}"))).unwrap();
        println!("pid={}", gated.pid());
        std::process::abort();
    }

    #[test]
    fn a_child_of_a_dead_agent_never_executes_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("ran");
        let mut agent = testkit::own_test("gate::tests::agent_that_dies");
        // The child has the agent's output open until it ends, so the end of the output is the end of the child.
        let output = agent.env(MARK, &mark).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("pid="), "{text}");
        assert!(!mark.exists());
    }
}
