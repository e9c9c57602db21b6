//! Commands on the path, and the binary under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that a command name stands for on the `PATH`. None if it is not installed.
#[must_use]
pub fn find_command(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `perf`, which keeps copies of profiled files, and its settings, in that folder instead of the user's.
#[must_use]
pub fn perf(home: &Path) -> Command {
    let mut command = Command::new("perf");
    command.env("HOME", home);
    command
}

/// The `perf-agent` to test: `$PERF_AGENT`, or else the release build of this repository. None if there is neither.
#[must_use]
pub fn perf_agent() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let named = env::var_os("PERF_AGENT").map(PathBuf::from);
    let built = target.join("release/perf-agent");
    named.into_iter().chain([built]).find(|path| path.is_file())?.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_on_the_path() {
        assert!(find_command("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_command("no-such-command-anywhere"), None);
    }

    #[test]
    fn perf_keeps_its_copies_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = perf(folder.path());
        record.args(["record", "-e", "cpu-clock", "-F", "999", "-o", "data", "--", "true"]);
        let output = record.current_dir(folder.path()).output();
        if !output.is_ok_and(|output| output.status.success()) {
            crate::skip!("perf is missing or may not record");
        }
        assert!(folder.path().join(".debug").is_dir());
    }
}
