//! Makes a JVM listen, and connects to it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fchown, fstat, open, openat, openat2, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid, pidfd_open, pidfd_send_signal};

use super::error::JavaError;
use super::guards::{self, Owner};
use super::socket;

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
    let innermost = process::task::ns_pids(pid).ok().and_then(|pids| pids.last().copied());
    let innermost = innermost.ok_or(JavaError::Gone)?;
    let tmp = folder(pid, "tmp")?;
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

/// A JVM answers to its own user and to root.
fn may_act_for(owner: Owner) -> bool {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    uid.is_root() || (uid.as_raw() == owner.uid && gid.as_raw() == owner.gid)
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// A folder in the root of a process, which cannot be led out of it.
fn folder(pid: u32, name: &str) -> Result<OwnedFd, JavaError> {
    let root = open(format!("/proc/{pid}/root"), FOLDER, Mode::empty())
        .map_err(JavaError::io("open the root directory of the process"))?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(&root, name, FOLDER, Mode::empty(), inside)
        .or_else(|error| match error {
            Errno::NOSYS => openat(&root, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()),
            error => Err(error),
        })
        .map_err(JavaError::io("open the /tmp of the process"))
}

/// Connects if the JVM listens. `None`: not yet. A socket that an earlier process with the number has left refuses.
fn connect_in(
    tmp: &OwnedFd,
    innermost: u32,
    pid: u32,
    owner: Owner,
) -> Result<Option<UnixStream>, JavaError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let handle = match openat(tmp, format!(".java_pid{innermost}"), flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(JavaError::Io { attempt: "open its socket", source: error.into() }),
    };
    let stat = fstat(&handle).map_err(JavaError::io("examine its socket"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || ![0, owner.uid].contains(&stat.st_uid) {
        return Err(JavaError::NotItsSocket);
    }
    match UnixStream::connect(format!("/proc/self/fd/{}", handle.as_raw_fd())) {
        Ok(stream) if socket::listener(&stream) == Some(pid) => Ok(Some(stream)),
        Ok(_) => Err(JavaError::NotItsSocket),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(source) => Err(JavaError::Io { attempt: "connect to its socket", source }),
    }
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
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let there = openat(&self.folder, &self.name, flags, Mode::empty()).and_then(fstat);
        // The JVM may have removed it.
        let place = |stat: Stat| (stat.st_dev, stat.st_ino);
        if there.is_ok_and(|there| fstat(&self.file).is_ok_and(|own| place(own) == place(there))) {
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixListener;

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

    #[test]
    fn only_a_socket_on_which_the_target_listens_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = open(folder.path(), FOLDER, Mode::empty()).unwrap();
        let path = folder.path().join(".java_pid7");
        let pid = std::process::id();
        let at = |pid| connect_in(&tmp, 7, pid, own());
        assert!(at(pid).unwrap().is_none());
        let listener = UnixListener::bind(&path).unwrap();
        assert!(at(pid).unwrap().is_some());
        assert!(matches!(at(1), Err(JavaError::NotItsSocket)), "another process listens");
        drop(listener);
        assert!(at(pid).unwrap().is_none(), "nobody listens any more");
        let other = folder.path().join("other");
        std::fs::rename(&path, &other).unwrap();
        let _listener = UnixListener::bind(folder.path().join("theirs")).unwrap();
        std::os::unix::fs::symlink("theirs", &path).unwrap();
        assert!(matches!(at(pid), Err(JavaError::NotItsSocket)), "a link");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR).unwrap();
        assert!(matches!(at(pid), Err(JavaError::NotItsSocket)), "a FIFO");
    }
}
