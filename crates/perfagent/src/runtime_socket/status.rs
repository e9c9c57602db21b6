//! What `/proc` tells of a process that is to be asked.

use std::fs::File;
use std::io::{self, Read as _};

/// Bytes of a command line, an environment or a status that are read.
const MAX_BYTES: u64 = 1 << 20;

/// User and group as whom a process acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Facts of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The letter of its state.
    pub(crate) state: char,
    /// Signals with a handler, a bit each; 0 if that is not told.
    pub(crate) caught: u64,
    pub(crate) owner: Owner,
}

/// Reads the status of a process. `None`: it has none that makes sense.
pub(crate) fn status(pid: u32) -> io::Result<Option<Status>> {
    Ok(Status::parse(&String::from_utf8_lossy(&proc_file(pid, "status")?)))
}

/// A file of a process in `/proc`, as far as it is read.
pub(crate) fn proc_file(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/{name}"))?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The number of a process in its own PID namespace.
pub(crate) fn innermost_pid(pid: u32) -> Option<u32> {
    process::task::ns_pids(pid).ok()?.last().copied()
}

/// A runtime answers to its own user and to root.
pub(crate) fn may_act_for(owner: Owner) -> bool {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    uid.is_root() || (uid.as_raw() == owner.uid && gid.as_raw() == owner.gid)
}

impl Status {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        // Real, effective, saved, of the file system.
        let effective = |key: &str| field(key)?.split_ascii_whitespace().nth(1)?.parse::<u32>().ok();
        Some(Self {
            state: field("State:")?.chars().next()?,
            caught: field("SigCgt:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0),
            owner: Owner { uid: effective("Uid:")?, gid: effective("Gid:")? },
        })
    }

    /// Whether it has ended, though its number is still taken.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it is stopped by a signal or a debugger.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_as_whom_a_process_acts_and_what_it_does() {
        let text = "Name:\tjava\nState:\tt (tracing stop)\nUid:\t1\t7\t1\t1\nGid:\t1\t8\t1\t1\nSigCgt:\t14\n";
        let status = Status::parse(text).unwrap();
        assert_eq!(status, Status { state: 't', caught: 0x14, owner: Owner { uid: 7, gid: 8 } });
        assert!(status.is_stopped() && !status.is_gone());
        assert!(Status::parse(&text.replace("t (", "Z (")).unwrap().is_gone());
        assert_eq!(Status::parse(&text.replace("14", "x")).unwrap().caught, 0);
        assert_eq!([Status::parse(""), Status::parse("State:\tS\nUid:\t1\n")], [None, None]);
    }

    #[test]
    fn of_this_process_all_is_known() {
        let own = super::status(std::process::id()).unwrap().unwrap();
        assert_eq!(own.owner.uid, rustix::process::geteuid().as_raw());
        assert!(may_act_for(own.owner) && !own.is_stopped() && !own.is_gone());
        assert!(super::status(u32::MAX).is_err());
    }
}
