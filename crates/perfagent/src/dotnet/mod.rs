//! Asks a running .NET runtime (8 and later) through its diagnostics socket to write its perf map, and to stop to.
//!
//! Nothing is loaded into the process and no signal is sent. The runtime itself makes the file, so before it is asked everything is checked that could lead
//! it elsewhere or make it fail ([`claim`]). A runtime that tells of its code already is left as it is, also at the end.
//! Guaranteed: each step has a limit of time; a runtime is not asked to close a map that it has not opened. Not here: when a runtime is asked,
//! which ones are on, and reading the map.

mod claim;
mod error;
mod open_files;
mod protocol;
mod runtime;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use claim::Claim;
pub(crate) use error::DotNetError;
use open_files::{OpenFiles, map_name};
use protocol::Command;
use runtime::Runtime;

/// How long a runtime may take to write the methods that are compiled already: 100,000 in about 3 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// What asking led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The process has no .NET runtime with a socket.
    NoRuntime,
    /// It tells of its code already. Nothing was asked.
    WasOn,
    /// It writes its map from now on.
    TurnedOn,
}

/// Makes a runtime write its perf map, anew if there is one. `start_ticks`: the start of the process that is meant.
pub(crate) fn turn_on(pid: u32, start_ticks: u64) -> Result<Asked, DotNetError> {
    let Some(runtime) = Runtime::find(pid, start_ticks)? else { return Ok(Asked::NoRuntime) };
    if OpenFiles::of(pid, runtime.innermost)?.are_on() {
        return Ok(Asked::WasOn);
    }
    if runtime.is_stopped {
        return Err(DotNetError::Stopped);
    }
    if let Some(variable) = runtime.other_folder() {
        return Err(DotNetError::OtherFolder(variable));
    }
    let tmp = runtime::tmp(pid)?;
    let name = map_name(runtime.innermost);
    // The first builds of .NET 8 write a list of files beside it.
    let _list = Claim::make(&tmp, format!("perfinfo-{}.map", runtime.innermost), runtime.owner)?;
    let map = Claim::make(&tmp, name, runtime.owner)?;
    let mut stream = runtime.connect()?;
    protocol::send(&mut stream, Command::EnablePerfMap)?;
    match protocol::receive(&mut stream, Instant::now() + PATIENCE, PATIENCE) {
        Ok(()) => {}
        Err(error) => {
            if error.may_have_obeyed() {
                map.keep();
            }
            return Err(error);
        }
    }
    // If that cannot be seen, its answer counts.
    match OpenFiles::of(pid, runtime.innermost).map_or(map.place(), |files| files.map) {
        place if place.is_some() && place == map.place() => {
            map.keep();
            Ok(Asked::TurnedOn)
        }
        Some(_) => {
            let mut stream = runtime.connect()?;
            protocol::send(&mut stream, Command::DisablePerfMap)?;
            protocol::receive(&mut stream, Instant::now() + PATIENCE, PATIENCE)?;
            Err(DotNetError::NotOpened)
        }
        None => Err(DotNetError::NotOpened),
    }
}

/// A runtime that was asked to close its perf map.
pub(crate) struct Closing {
    stream: UnixStream,
    is_stopped: bool,
}

/// Asks a runtime that was turned on to close its perf map. `None`: it has none open, or has ended. `is_sure`: it is known to have opened it.
pub(crate) fn turn_off(pid: u32, start_ticks: u64, is_sure: bool) -> Result<Option<Closing>, DotNetError> {
    let runtime = match Runtime::find(pid, start_ticks) {
        Ok(Some(runtime)) => runtime,
        Ok(None) | Err(DotNetError::Gone) => return Ok(None),
        Err(error) => return Err(error),
    };
    if is_sure && OpenFiles::of(pid, runtime.innermost)?.map.is_none() {
        return Ok(None);
    }
    let mut stream = runtime.connect()?;
    protocol::send(&mut stream, Command::DisablePerfMap)?;
    Ok(Some(Closing { stream, is_stopped: runtime.is_stopped }))
}

impl Closing {
    /// Waits until it has done so. A stopped process is not waited for: it finds the request when it goes on.
    pub(crate) fn finish(mut self, deadline: Instant, patience: Duration) -> Result<(), DotNetError> {
        if self.is_stopped {
            return Err(DotNetError::Stopped);
        }
        match protocol::receive(&mut self.stream, deadline, patience) {
            // A runtime that ends closes its map too.
            Err(DotNetError::Cut) => Ok(()),
            told => told,
        }
    }
}

#[cfg(test)]
mod tests;
