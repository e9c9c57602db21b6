//! Locks between processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A lock, until it is dropped or the process ends.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for a lock while `goes_on` holds. `None`: it did not come.
    pub(super) fn wait(path: &Path, goes_on: impl Fn() -> bool) -> io::Result<Option<Self>> {
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(Errno::WOULDBLOCK | Errno::INTR) if goes_on() => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_lock_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::wait(&path, || false).unwrap().unwrap();
        assert!(Lock::wait(&path, || false).unwrap().is_none());
        drop(first);
        assert!(Lock::wait(&path, || false).unwrap().is_some());
    }
}
