//! Perf maps for processes of tests.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The perf map of a process, `/tmp/perf-PID.map`; removed when dropped.
#[derive(Debug)]
pub struct PerfMap(PathBuf);

impl PerfMap {
    /// Where the map of this process is. There is none before the first [`PerfMap::write`].
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self(PathBuf::from(format!("/tmp/perf-{pid}.map")))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes it anew.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, text: &str) -> io::Result<()> {
        fs::write(&self.0, text)
    }

    /// Writes it anew, as if that had been done at another time.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_at(&self, text: &str, time: SystemTime) -> io::Result<()> {
        self.write(text)?;
        File::options().write(true).open(&self.0)?.set_modified(time)
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        // There may be none.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_map_is_there_until_it_is_dropped() {
        // No process has this number.
        let map = PerfMap::of(u32::MAX);
        let path = map.path().to_owned();
        assert!(!path.exists());
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        map.write_at("10 10 name\n", hour_ago).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), hour_ago);
        assert_eq!(fs::read_to_string(&path).unwrap(), "10 10 name\n");
        drop(map);
        assert!(!path.exists());
    }
}
