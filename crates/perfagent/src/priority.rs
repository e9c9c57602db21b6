//! Scheduling priority of the capture's threads.
//!
//! On a machine with many more busy threads than CPUs, a thread of equal right waits for seconds: the start takes long,
//! and the ring is not emptied in time. The thread that polls sleeps nearly always, so it goes first; those that
//! compute do not.

/// Nice value of the thread that starts and polls.
const FIRST: i32 = -10;

/// Puts the calling thread before others, if it may (CAP_SYS_NICE). Threads that it makes inherit that.
pub(super) fn go_first() {
    // On Linux `setpriority` of process 0 is about the calling thread. Refused: it runs as well, only later.
    let _ = rustix::process::setpriority_process(None, FIRST);
}

/// Puts the calling thread among all others.
pub(super) fn go_with_others() {
    let _ = rustix::process::setpriority_process(None, 0);
}
