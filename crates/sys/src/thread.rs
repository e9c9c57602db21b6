//! Threads that block signals, so that a library never runs the handlers of its host program on its own threads.

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
