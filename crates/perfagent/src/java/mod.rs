//! Asks a running JVM (HotSpot, JDK 17 and later) to write its perf map, as `jcmd PID Compiler.perfmap` does.
//!
//! The way: a file `.attach_pidN` and SIGQUIT make the JVM listen on a socket in its `/tmp`; a request on that socket makes it write the
//! map. Nothing is loaded into the JVM. SIGQUIT ends a process that does not catch it, so it is sent only when everything has just been
//! checked that can be ([`guards`]), and through a descriptor of the process. The folder of a target is hostile: a file is made there only if
//! there was none, and only a socket of the target's user that the target itself listens on is written to.
//! Guaranteed: what is made is removed; each step has a limit of time. Not here: when a JVM is asked, and reading the map.

mod attach;
mod error;
mod guards;
mod socket;

use error::JavaError;

/// Makes a JVM write its perf map, anew if there is one. `start_ticks`: the start of the process that is meant. False: it is no JVM.
pub(crate) fn write_perf_map(pid: u32, start_ticks: u64) -> Result<bool, JavaError> {
    if !guards::maps_jvm(pid)? {
        return Ok(false);
    }
    let mut connected = attach::connect(pid, start_ticks)?;
    socket::command(&mut connected, "Compiler.perfmap").map(|()| true)
}

#[cfg(test)]
mod tests;
