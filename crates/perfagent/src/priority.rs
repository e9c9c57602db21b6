//! Scheduling priority of the capture's threads.
//!
//! On a machine with many more busy threads than CPUs, a thread of equal right waits for seconds: the start takes long,
//! and the ring is not emptied in time. The thread that polls sleeps nearly always, so it goes first. Stacks wait for those that
//! prepare unwinding, a second of CPU time at most for a program, so they go before most; others that compute do not.

/// Nice value of the thread that starts and polls.
const FIRST: i32 = -10;
/// Nice value of threads that stacks wait for: three times the share of others.
const SOON: i32 = -5;

/// Puts the calling thread before others, if it may (CAP_SYS_NICE). Threads that it makes inherit that.
pub(super) fn go_first() {
    // On Linux `setpriority` of process 0 is about the calling thread. Refused: it runs as well, only later.
    let _ = rustix::process::setpriority_process(None, FIRST);
}

/// Puts the calling thread before most others, if it may.
pub(super) fn go_soon() {
    let _ = rustix::process::setpriority_process(None, SOON);
}

/// Puts the calling thread among all others.
pub(super) fn go_with_others() {
    let _ = rustix::process::setpriority_process(None, 0);
}
