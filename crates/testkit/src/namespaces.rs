//! Namespaces for tests, where this user may have them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// As [`may_unshare`]. `None` where that is not possible: then the reason of the skip is printed.
///
/// # Panics
/// If a temporary folder or a process cannot be made.
#[must_use]
pub fn unshare(options: &[&str]) -> Option<Command> {
    may_unshare(options).map_err(crate::skipped).ok()
}

/// A command that runs a program in new namespaces: `unshare` with these options. With a mount namespace the program may mount file
/// systems.
///
/// # Errors
/// The reason of a skip, found by trying once.
///
/// # Panics
/// If a temporary folder or a process cannot be made.
pub fn may_unshare(options: &[&str]) -> Result<Command, String> {
    static TRIED: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let program = crate::need("unshare").map_err(|missing| missing.to_string())?;
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reason) = tried.entry(options.join(" ")).or_insert_with(|| refusal(&program, options)) {
        return Err(reason.clone());
    }
    let mut command = Command::new(program);
    command.args(options);
    Ok(command)
}

/// Why these namespaces cannot be made, by trying.
fn refusal(unshare: &PathBuf, options: &[&str]) -> Option<String> {
    let mounts = options.iter().any(|option| option.starts_with("--mount"));
    let folder = tempfile::tempdir().expect("tests have a temporary folder");
    let work = if mounts { "exec mount -t tmpfs none \"$0\"" } else { ":" };
    let mut command = Command::new(unshare);
    command.args(options).args(["sh", "-c", work]).arg(folder.path());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if output.status.success() {
        return None;
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_root_missing = mounts && !mounts_the_root(&mounted);
    let need = if is_root_missing { "a root that is a mount point" } else { "namespaces" };
    Some(format!("needs {need}: unshare {}: {}", options.join(" "), complaint.trim()))
}

/// Whether the root directory is a mount point, by the list of mounts. The one of a `chroot` may be none, and a new mount namespace
/// needs one.
fn mounts_the_root(mountinfo: &str) -> bool {
    mountinfo.lines().any(|line| line.split(' ').nth(4) == Some("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_in_its_namespaces() {
        let options = ["--pid", "--fork", "--mount-proc"];
        let Some(mut command) = unshare(&options) else { return };
        let output = command.args(["sh", "-c", "echo $$"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
    }

    #[test]
    fn a_refusal_says_what_was_tried() {
        let Some(program) = crate::needed("unshare") else { return };
        let reason = refusal(&program, &["--no-such-option"]).unwrap();
        assert!(reason.starts_with("needs namespaces: unshare --no-such-option: /"), "{reason}");
    }

    #[test]
    fn a_root_directory_of_chroot_is_no_mount_point() {
        assert!(mounts_the_root(
            "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n30 21 0:5 / /proc rw - proc proc rw\n"
        ));
        assert!(!mounts_the_root("30 21 0:5 / /proc rw - proc proc rw\n"));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let program = crate::need!("unshare");
        if let Some(reason) = refusal(&program, &["--mount"]) {
            assert_eq!(
                reason.contains("a root that is a mount point"),
                !mounts_the_root(&mounts),
                "{reason}"
            );
        }
    }
}
