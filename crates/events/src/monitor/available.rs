//! Which numbered events this machine has.

use rustix::io::Errno;
use sys::perf::{Attr, open};

/// Whether this machine has an event of this type and config. One that only a privilege is missing for is there.
#[must_use]
pub fn is_available(kind: u32, config: u64, further: [u64; 2]) -> bool {
    let missing = [Errno::NOENT, Errno::OPNOTSUPP, Errno::NODEV, Errno::INVAL];
    let is_missing = |pid, cpu| {
        let [config1, config2] = further;
        let opened = open(&Attr { kind, config, config1, config2, ..Attr::default() }, pid, cpu, None);
        opened.is_err_and(|error| Errno::from_io_error(&error).is_some_and(|errno| missing.contains(&errno)))
    };
    // Some events belong to a whole CPU and to no thread.
    !is_missing(0, -1) || !is_missing(-1, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_kernel_are_there_and_others_are_not() {
        let opened = open(&Attr { kind: 1, config: 2, ..Attr::default() }, 0, -1, None);
        if opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
            testkit::skip!("perf events are not permitted");
        }
        assert!(is_available(1, 2, [0; 2]), "page-faults");
        assert!(!is_available(1, 4711, [0; 2]) && !is_available(u32::MAX, 0, [0; 2]));
    }
}
