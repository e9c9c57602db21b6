//! Threads that block signals, so that a library never runs the handlers of its host program on its own threads.

use std::io;
use std::mem::MaybeUninit;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Signals that the kernel raises for a fault of the thread itself. If they were blocked, they would kill the process
/// without reaching a handler.
const FAULT_SIGNALS: [libc::c_int; 7] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// Starts a thread `perfagent-{name}` in which all signals except those of its own faults are blocked from its first
/// instruction on. The kernel keeps 15 bytes of the name, so five are left for `name`.
///
/// # Errors
/// The errno of the thread's creation.
pub fn spawn_quiet_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initializes the set, which `sigdelset` and `pthread_sigmask` then use; the latter
    // writes `before`.
    let result = unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in FAULT_SIGNALS {
            libc::sigdelset(blocked.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr())
    };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    let thread = Builder::new().name(format!("perfagent-{name}")).spawn(body);
    // SAFETY: `before` was written by the successful call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    thread
}

/// The result of a call that may block for as long as a file system likes, on a thread of its own. `None`: there was none within
/// `patience`; the thread stays until the call returns.
///
/// # Errors
/// The errno of the thread's creation.
pub fn within<T: Send + 'static>(
    name: &str,
    patience: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (answer, answered) = mpsc::sync_channel(1);
    let _detached = spawn_quiet_thread(name, move || answer.send(call()).is_ok())?;
    Ok(answered.recv_timeout(patience).ok())
}

/// Tells whether a thread gets on: from another thread, without its help.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    clock: libc::clockid_t,
    tid: i32,
}

impl Activity {
    /// Of the calling thread.
    ///
    /// # Errors
    /// The errno of `pthread_getcpuclockid(3)`.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: the calling thread exists, and `clock` is writable.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        Ok(Self { clock, tid: rustix::thread::gettid().as_raw_nonzero().get() })
    }

    /// The CPU time that the thread has used so far. `None` if it has ended.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is writable; the clock of a thread that has ended is refused.
        let result = unsafe { libc::clock_gettime(self.clock, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).ok().filter(|_| result == 0)?;
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
    }

    /// Whether the thread waits for something else than a CPU.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('R'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_return_holds_up_nobody() {
        assert_eq!(within("test", Duration::from_secs(60), || 7).unwrap(), Some(7));
        let (end, ended) = mpsc::channel::<()>();
        let blocked = within("test", Duration::from_millis(10), move || ended.recv().is_ok());
        assert_eq!(blocked.unwrap(), None);
        drop(end);
    }

    fn blocked_signals() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn signals_are_blocked_in_the_new_thread_only() {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let before = blocked_signals();
        let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let (blocked, name) =
            spawn_quiet_thread("test", move || (blocked_signals(), name())).unwrap().join().unwrap();
        assert_eq!(name, "perfagent-test\n");
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGPROF, libc::SIGCHLD, libc::SIGUSR1] {
            assert_ne!(blocked & bit(signal), 0, "{signal}");
        }
        for signal in FAULT_SIGNALS {
            assert_eq!(blocked & bit(signal), 0, "{signal}");
        }
        assert_eq!(blocked_signals(), before);
    }

    #[test]
    fn a_thread_that_computes_gets_on_and_one_that_waits_does_not() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(Activity::of_this_thread().unwrap()).unwrap();
            gone.recv().unwrap();
            while gone.try_recv().is_err() {}
        });
        let activity = told.recv().unwrap();
        testkit::until("it waits", || activity.is_waiting());
        let mut waiting = activity.cpu_time().unwrap();
        // It may be on its way off the CPU.
        testkit::until("its time stands still", || {
            let before = std::mem::replace(&mut waiting, activity.cpu_time().unwrap());
            before == waiting
        });
        go.send(()).unwrap();
        testkit::until("it computes", || activity.cpu_time().unwrap() >= waiting + Duration::from_millis(20));
        go.send(()).unwrap();
        thread.join().unwrap();
    }
}
