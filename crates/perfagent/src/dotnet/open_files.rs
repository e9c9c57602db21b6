//! The perf map and the jitdump that a process has open now: what tells whether its runtime writes them.

use rustix::fs::stat;

use super::error::DotNetError;
use crate::runtime_socket::proc_file;

/// Descriptors that are looked at.
const MAX_FILES: usize = 1 << 18;
/// Descriptors that a process must have left to open a map.
const SPARE: u64 = 16;

/// Device and inode of a file.
pub(super) type Place = (u64, u64);

/// What a process has open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    /// Its perf map, wherever it is.
    pub(super) map: Option<Place>,
    /// Its jitdump is open.
    pub(super) dump: bool,
}

impl OpenFiles {
    /// Looks at a process that has the number `innermost` in its own PID namespace. Fails if it has no descriptor left for a map.
    pub(super) fn of(pid: u32, innermost: u32) -> Result<Self, DotNetError> {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .map_err(DotNetError::of_proc("list the open files of the process"))?;
        let (map, dump) = (map_name(innermost), format!("jit-{innermost}.dump"));
        let (mut found, mut count) = (Self::default(), 0);
        for file in files.flatten() {
            count += 1;
            if count > MAX_FILES {
                return Err(DotNetError::TooManyFiles(MAX_FILES));
            }
            let path = file.path();
            let Ok(link) = std::fs::read_link(&path) else { continue };
            match link.file_name().and_then(|name| name.to_str()) {
                // Not by its path, which has another meaning in a container.
                Some(name) if name == map => {
                    found.map = stat(&path).ok().map(|stat| (stat.st_dev, stat.st_ino)).or(found.map);
                }
                Some(name) => found.dump |= name == dump,
                None => {}
            }
        }
        let limit = proc_file(pid, "limits").ok().and_then(|text| limit_in(&String::from_utf8_lossy(&text)));
        match limit.filter(|limit| found.map.is_none() && count as u64 + SPARE > *limit) {
            Some(limit) => Err(DotNetError::NoDescriptors(limit)),
            None => Ok(found),
        }
    }

    /// Whether the runtime tells of its code already.
    pub(super) fn are_on(&self) -> bool {
        self.map.is_some() || self.dump
    }
}

/// The name of the perf map of a process.
pub(super) fn map_name(innermost: u32) -> String {
    format!("perf-{innermost}.map")
}

/// The limit of open files among the limits of a process. `None`: there is none.
fn limit_in(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_only_while_they_are_open() {
        let (pid, folder) = (std::process::id(), tempfile::tempdir().unwrap());
        // A number that no other test uses.
        let number = 4_000_000_001;
        assert!(!OpenFiles::of(pid, number).unwrap().are_on());
        let map = std::fs::File::create(folder.path().join(map_name(number))).unwrap();
        let meta = map.metadata().unwrap();
        assert_eq!(OpenFiles::of(pid, number).unwrap().map, Some((meta.dev(), meta.ino())));
        drop(map);
        assert!(!OpenFiles::of(pid, number).unwrap().are_on());
        let _dump = std::fs::File::create(folder.path().join(format!("jit-{number}.dump"))).unwrap();
        assert!(OpenFiles::of(pid, number).unwrap().are_on());
        assert!(matches!(OpenFiles::of(u32::MAX, 1), Err(DotNetError::Gone)));
    }

    #[test]
    fn the_limit_is_that_which_holds() {
        let text = "Limit  Soft\nMax open files            1024                 1048576              files\n";
        assert_eq!(limit_in(text), Some(1024));
        assert_eq!(limit_in("Max open files  unlimited unlimited files\n"), None);
        assert!(
            limit_in(&String::from_utf8(proc_file(std::process::id(), "limits").unwrap()).unwrap()).is_some()
        );
    }
}
