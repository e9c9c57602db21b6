//! Removing a file that was made in a folder of a target, which may have put another one in its place.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, unlinkat};

/// Looks at a file, or a link, without opening what it is or leads to.
pub(crate) const PEEK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Removes the file that was made, if it is still the one of this name, and as it is meant to be.
pub(crate) fn remove_made(folder: &OwnedFd, name: &str, made: &OwnedFd, is_meant: impl Fn(&Stat) -> bool) {
    let place = |stat: &Stat| (stat.st_dev, stat.st_ino);
    let there = openat(folder, name, PEEK, Mode::empty()).and_then(fstat);
    let is_it = |there: Stat| fstat(made).is_ok_and(|own| place(&own) == place(&there) && is_meant(&own));
    if there.is_ok_and(is_it) {
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
}
