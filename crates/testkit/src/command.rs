//! Commands on the path, and the binary under test.

use std::env;
use std::path::{Path, PathBuf};

/// The file that a command name stands for on the `PATH`. None if it is not installed.
#[must_use]
pub fn find_command(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
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
}
