//! Finds a socket in a folder of a process and connects to it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::status::Owner;

/// How a folder is opened.
pub(crate) const FOLDER: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// Somebody else listens on it, or it is no socket, or of another user.
    #[error("the socket in its folder is not its own")]
    NotItsOwn,
    /// Its queue is full.
    #[error("it accepts no connection")]
    AcceptsNone,
    /// Opening a folder or the socket, or connecting.
    #[error("{attempt}: {source}")]
    Io { attempt: &'static str, source: io::Error },
}

impl SocketError {
    fn io<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { attempt, source: source.into() }
    }
}

/// A folder in the root of a process, which cannot be led out of it.
pub(crate) fn folder(pid: u32, path: &Path) -> Result<OwnedFd, SocketError> {
    let root = open(format!("/proc/{pid}/root"), FOLDER, Mode::empty())
        .map_err(SocketError::io("open the root directory of the process"))?;
    let path = path.strip_prefix("/").unwrap_or(path);
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(&root, path, FOLDER, Mode::empty(), inside)
        .or_else(|error| match (error, path.components().count()) {
            // Before Linux 5.6. Only the last link of a path can be refused.
            (Errno::NOSYS, 1) => openat(&root, path, FOLDER | OFlags::NOFOLLOW, Mode::empty()),
            (error, _) => Err(error),
        })
        .map_err(SocketError::io("open the folder of the socket"))
}

/// Connects if the process listens. `None`: it does not. A socket that an earlier process with the number has left refuses.
pub(crate) fn connect(
    folder: &OwnedFd,
    name: &str,
    pid: u32,
    owner: Owner,
) -> Result<Option<UnixStream>, SocketError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let handle = match openat(folder, name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(SocketError::io("open its socket")(error)),
    };
    let stat = fstat(&handle).map_err(SocketError::io("examine its socket"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || ![0, owner.uid].contains(&stat.st_uid) {
        return Err(SocketError::NotItsOwn);
    }
    match connect_to(&handle) {
        Ok(stream) if listener(&stream) == Some(pid) => Ok(Some(stream)),
        Ok(_) => Err(SocketError::NotItsOwn),
        Err(Errno::CONNREFUSED) => Ok(None),
        Err(Errno::AGAIN) => Err(SocketError::AcceptsNone),
        Err(error) => Err(SocketError::io("connect to its socket")(error)),
    }
}

/// Connects without waiting for a place in the queue of the listener.
fn connect_to(handle: &OwnedFd) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let near = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
    rustix::net::connect(&near, &address)?;
    let stream = UnixStream::from(near);
    stream.set_nonblocking(false).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(stream)
}

/// The process that listens on the other end.
fn listener(stream: &UnixStream) -> Option<u32> {
    u32::try_from(socket_peercred(stream).ok()?.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn own() -> Owner {
        Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    #[test]
    fn only_a_socket_on_which_the_target_listens_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = open(folder.path(), FOLDER, Mode::empty()).unwrap();
        let path = folder.path().join("its-socket");
        let pid = std::process::id();
        let at = |pid| connect(&tmp, "its-socket", pid, own());
        assert!(at(pid).unwrap().is_none());
        let listener = UnixListener::bind(&path).unwrap();
        assert!(at(pid).unwrap().is_some());
        assert!(matches!(at(1), Err(SocketError::NotItsOwn)), "another process listens");
        drop(listener);
        assert!(at(pid).unwrap().is_none(), "nobody listens any more");
        let other = folder.path().join("other");
        std::fs::rename(&path, &other).unwrap();
        let _listener = UnixListener::bind(folder.path().join("theirs")).unwrap();
        std::os::unix::fs::symlink("theirs", &path).unwrap();
        assert!(matches!(at(pid), Err(SocketError::NotItsOwn)), "a link");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR).unwrap();
        assert!(matches!(at(pid), Err(SocketError::NotItsOwn)), "a FIFO");
    }

    #[test]
    fn a_listener_whose_queue_is_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = open(folder.path(), FOLDER, Mode::empty()).unwrap();
        let path = folder.path().join("s");
        let near = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&near, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&near, 0).unwrap();
        let mut held = Vec::new();
        let refused = (0..8).find_map(|_| match connect(&tmp, "s", std::process::id(), own()) {
            Ok(stream) => {
                held.push(stream);
                None
            }
            Err(error) => Some(error),
        });
        assert!(matches!(refused, Some(SocketError::AcceptsNone)), "{refused:?}");
    }

    #[test]
    fn a_folder_does_not_lead_out_of_the_root() {
        assert!(super::folder(std::process::id(), Path::new("/tmp")).is_ok());
        let error = super::folder(std::process::id(), Path::new("/proc/self/fd/0")).unwrap_err();
        assert!(error.to_string().contains("folder of the socket"), "{error}");
        assert!(super::folder(u32::MAX, Path::new("/tmp")).is_err());
    }
}
