//! Makes a JVM listen, and connects to it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fchown, fstat, open, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid, pidfd_open, pidfd_send_signal};

use super::error::JavaError;
use super::guards;
use crate::runtime_socket::{self, FOLDER, Owner, innermost_pid, may_act_for, remove_made};

/// How long a JVM may take until it listens.
const PATIENCE: Duration = Duration::from_secs(3);
const CHECK: Duration = Duration::from_millis(5);

/// A connection to a JVM, which is made to listen if it does not.
pub(super) fn connect(pid: u32, start_ticks: u64) -> Result<UnixStream, JavaError> {
    let raw = Pid::from_raw(i32::try_from(pid).unwrap_or(0)).ok_or(JavaError::Gone)?;
    // From here on the signal cannot reach another process.
    let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => JavaError::Gone,
        error => JavaError::Io { attempt: "open the process", source: error.into() },
    })?;
    let owner = guards::check(pid, start_ticks)?;
    if !may_act_for(owner) {
        return Err(JavaError::OtherUser(owner.uid));
    }
    let innermost = innermost_pid(pid).ok_or(JavaError::Gone)?;
    let tmp = runtime_socket::folder(pid, Path::new("/tmp"))?;
    if let Some(connected) = connect_in(&tmp, innermost, pid, owner)? {
        return Ok(connected);
    }
    // In the folder of the socket; the JVM looks into its working directory too.
    let request = match Request::make(tmp.as_fd(), innermost, owner) {
        Ok(request) => request,
        Err(first) => {
            let own = open(format!("/proc/{pid}/cwd"), FOLDER, Mode::empty()).map_err(|_| JavaError::Gone)?;
            Request::make(own.as_fd(), innermost, owner).map_err(|_| first)?
        }
    };
    // Again: some time has passed.
    guards::check(pid, start_ticks)?;
    pidfd_send_signal(&process, Signal::QUIT).map_err(|error| match error {
        Errno::SRCH => JavaError::Gone,
        error => JavaError::Io { attempt: "send SIGQUIT", source: error.into() },
    })?;
    let begun = Instant::now();
    loop {
        std::thread::sleep(CHECK);
        if let Some(connected) = connect_in(&tmp, innermost, pid, owner)? {
            drop(request);
            return Ok(connected);
        }
        if process::task::start_time(pid).ok() != Some(start_ticks) {
            return Err(JavaError::Gone);
        }
        if begun.elapsed() > PATIENCE {
            return Err(JavaError::NoAnswer(PATIENCE.as_secs()));
        }
    }
}

/// Connects if the JVM listens. `None`: not yet.
fn connect_in(
    tmp: &OwnedFd,
    innermost: u32,
    pid: u32,
    owner: Owner,
) -> Result<Option<UnixStream>, JavaError> {
    Ok(runtime_socket::connect(tmp, &format!(".java_pid{innermost}"), pid, owner)?)
}

/// The file by which a JVM knows SIGQUIT as a request to listen. Removed when dropped.
struct Request {
    folder: OwnedFd,
    name: String,
    /// The file itself: another one with the name is not removed. It stays open, so its number is not given to another file.
    file: OwnedFd,
}

impl Request {
    fn make(folder: BorrowedFd<'_>, innermost: u32, owner: Owner) -> Result<Self, JavaError> {
        let attempt = "make the file .attach_pid in its /tmp or its working directory";
        let folder = folder.try_clone_to_owned().map_err(JavaError::io(attempt))?;
        let name = format!(".attach_pid{innermost}");
        // Exclusively: no link is followed, no file of somebody else is touched.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR).map_err(JavaError::io(attempt))?;
        let stat = fstat(&file).map_err(JavaError::io(attempt))?;
        let made = Self { folder, name, file };
        if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
            let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
            fchown(&made.file, Some(uid), Some(gid)).map_err(JavaError::io(attempt))?;
        }
        Ok(made)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // The JVM may have removed it.
        remove_made(&self.folder, &self.name, &self.file, |_| true);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn own() -> Owner {
        Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    #[test]
    fn the_file_of_a_request_is_new_of_the_target_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let open = open(folder.path(), FOLDER, Mode::empty()).unwrap();
        let path = folder.path().join(".attach_pid7");
        let request = Request::make(open.as_fd(), 7, own()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(Request::make(open.as_fd(), 7, own()).is_err(), "there is one");
        drop(request);
        assert!(!path.exists());
        if rustix::process::geteuid().is_root() {
            let other = Owner { uid: 12_345, gid: 54_321 };
            let request = Request::make(open.as_fd(), 7, other).unwrap();
            let meta = std::fs::metadata(&path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (12_345, 54_321));
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "of somebody else").unwrap();
            drop(request);
            assert!(path.exists());
            std::fs::remove_file(&path).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(Request::make(open.as_fd(), 7, own()).is_err());
    }
}
