//! The .NET runtime of a process: its socket, and as whom it acts.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{AtFlags, statat};

use super::error::DotNetError;
use crate::runtime_socket::{self, Owner, code_names, innermost_pid, may_act_for, proc_file};

/// Variables that say where it writes its map.
const OTHER_FOLDER: [&str; 2] = ["DOTNET_PerfMapJitDumpPath", "COMPlus_PerfMapJitDumpPath"];

/// A runtime with a diagnostics socket.
pub(super) struct Runtime {
    pub(super) pid: u32,
    /// Its number in its own PID namespace.
    pub(super) innermost: u32,
    pub(super) owner: Owner,
    pub(super) is_stopped: bool,
    /// Where its socket is.
    folder: OwnedFd,
    socket: String,
    environment: Vec<u8>,
}

impl Runtime {
    /// Looks for the runtime of a process that started at `start_ticks`. `None`: it has none.
    pub(super) fn find(pid: u32, start_ticks: u64) -> Result<Option<Self>, DotNetError> {
        let is_it = || process::task::start_time(pid).is_ok_and(|start| start == start_ticks);
        let innermost = innermost_pid(pid).filter(|_| is_it()).ok_or(DotNetError::Gone)?;
        let socket = format!("dotnet-diagnostic-{innermost}-{start_ticks}-socket");
        let environment = proc_file(pid, "environ").unwrap_or_default();
        let folders = [variable(&environment, "TMPDIR"), Some(Path::new("/tmp"))];
        let (mut found, mut failed) = (None, None);
        for path in folders.into_iter().flatten() {
            match runtime_socket::folder(pid, path) {
                Ok(folder) if statat(&folder, &socket, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
                    found = Some(folder);
                    break;
                }
                Ok(_) => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let Some(folder) = found else {
            let mut is_dotnet = false;
            code_names(pid, |file| is_dotnet |= file == "libcoreclr.so")
                .map_err(DotNetError::of_proc("read the mappings of the process"))?;
            let why = failed.map_or(DotNetError::NoSocket, DotNetError::from);
            return if is_dotnet { Err(why) } else { Ok(None) };
        };
        let status = runtime_socket::status(pid)
            .map_err(DotNetError::of_proc("read the status of the process"))?
            .filter(|status| !status.is_gone() && is_it())
            .ok_or(DotNetError::Gone)?;
        if !may_act_for(status.owner) {
            return Err(DotNetError::OtherUser(status.owner.uid));
        }
        let (owner, is_stopped) = (status.owner, status.is_stopped());
        Ok(Some(Self { pid, innermost, owner, is_stopped, folder, socket, environment }))
    }

    pub(super) fn connect(&self) -> Result<UnixStream, DotNetError> {
        runtime_socket::connect(&self.folder, &self.socket, self.pid, self.owner)?
            .ok_or(DotNetError::NoSocket)
    }

    /// The variable that makes it write its map into another folder.
    pub(super) fn other_folder(&self) -> Option<&'static str> {
        OTHER_FOLDER.into_iter().find(|name| variable(&self.environment, name).is_some())
    }
}

/// The absolute path that a variable of an environment has.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a Path> {
    let of = |text: &'a [u8]| text.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    let value = environment.split(|byte| *byte == 0).find_map(of)?;
    Some(Path::new(OsStr::from_bytes(value))).filter(|path| path.is_absolute())
}

/// `/tmp` of a process, where its map is read.
pub(super) fn tmp(pid: u32) -> Result<OwnedFd, DotNetError> {
    Ok(runtime_socket::folder(pid, Path::new("/tmp"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_the_process_and_absolute() {
        let environment = b"A=b\0XTMPDIR=/x\0TMPDIR=/var/tmp\0DOTNET_X=rel\0";
        assert_eq!(variable(environment, "TMPDIR"), Some(Path::new("/var/tmp")));
        assert_eq!(variable(environment, "DOTNET_X"), None);
        assert_eq!([variable(environment, "B"), variable(b"", "TMPDIR")], [None, None]);
    }

    #[test]
    fn this_process_has_no_runtime() {
        let own = std::process::id();
        let start = process::task::start_time(own).unwrap();
        assert!(Runtime::find(own, start).unwrap().is_none());
        assert!(matches!(Runtime::find(own, start + 1), Err(DotNetError::Gone)));
    }
}
