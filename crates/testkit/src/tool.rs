//! Running tools of Debian packages.

use std::path::Path;
use std::process::Command;

/// Runs a tool in a folder and returns its output. The first word is a name of the table of packages. `None` without its package: then
/// the reason of the skip is printed.
///
/// # Panics
/// If the tool fails.
#[must_use]
pub fn run_tool<'a>(folder: &Path, words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let words: Vec<&str> = words.into_iter().collect();
    let (tool, arguments) = words.split_first()?;
    let output = Command::new(crate::needed(tool)?).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_runs_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "text").unwrap();
        let Some(said) = run_tool(folder.path(), ["gzip", "-v", "x"]) else { return };
        assert_eq!((said.as_str(), folder.path().join("x.gz").exists()), ("", true));
    }

    #[test]
    #[should_panic(expected = "no-such-file")]
    fn a_tool_that_fails_is_no_reason_to_skip() {
        let folder = tempfile::tempdir().unwrap();
        let _ = run_tool(folder.path(), ["gzip", "no-such-file"]);
    }
}
