//! Waiting for the end of children, also while a thread of this process traces them.
//!
//! `waitpid` tells the parent of a traced child about its trace stops as soon as a thread of the parent itself is the tracer, whatever the
//! options are. The standard library takes such a stop for the end, and the tracer never sees it. So these functions look first,
//! without taking anything, and take only an end.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Between two looks at a child that stands in a trace stop: as long as it does, a wait for its end returns at once.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Its exit status; none while it lives. Not to be called again after it has returned a status.
///
/// # Errors
/// The errno of `waitid(2)`.
pub fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    match pid_of(child) {
        Some(pid) if !has_ended(pid, WaitIdOptions::NOHANG)? => Ok(None),
        _ => child.try_wait(),
    }
}

/// Waits for its end.
///
/// # Errors
/// The errno of `waitid(2)`.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(pid) = pid_of(child) {
        until_ended(pid)?;
    }
    child.wait()
}

/// Waits for the end of a child, and leaves its status for others.
pub(crate) fn until_ended(pid: Pid) -> io::Result<()> {
    while !has_ended(pid, WaitIdOptions::empty())? {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Takes nothing.
fn has_ended(pid: Pid, options: WaitIdOptions) -> io::Result<bool> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options;
        match waitid(WaitId::Pid(pid), options) {
            Ok(status) => {
                return Ok(status.is_some_and(|now| now.exited() || now.killed() || now.dumped()));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().cast_signed())
}
