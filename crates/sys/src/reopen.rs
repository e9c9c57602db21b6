//! Opens for reading a regular file that was examined through a handle.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Opens the file of a handle (`O_PATH`) for reading. It does not wait: the owner of a file may hold a lease on it (fcntl(2), `F_SETLEASE`), and
/// each opening would wait for /proc/sys/fs/lease-break-time, 45 s.
///
/// # Errors
/// Those of open(2); `EAGAIN` if there is a lease on the file.
pub fn reopen(handle: impl AsFd) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    open(format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()), flags, Mode::empty()).map(File::from)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_lease_is_not_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let handle = open(file.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        assert!(reopen(&handle).is_ok());
        let holder = file.as_file().as_raw_fd();
        // The signal of a broken lease is SIGIO, which would end this process; SIGURG is ignored.
        const F_SETSIG: libc::c_int = 10;
        // SAFETY: both commands take numbers and change nothing but this open file.
        let leased = unsafe {
            libc::fcntl(holder, F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(holder, libc::F_SETLEASE, libc::F_WRLCK) == 0
        };
        assert!(leased, "{}", std::io::Error::last_os_error());
        let begun = Instant::now();
        assert_eq!(reopen(&handle).unwrap_err(), Errno::AGAIN);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
