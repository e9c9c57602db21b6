//! Whether a test has the rights that profiling needs.

use std::path::Path;

/// Whether a file has capabilities, which every process that executes it gets.
#[must_use]
pub fn has_file_capabilities(file: &Path) -> bool {
    let mut value = [0; 64];
    rustix::fs::getxattr(file, c"security.capability", &mut value).is_ok_and(|length| length > 0)
}

/// Whether this user may profile with that perf-agent: as root, or because the file has capabilities.
///
/// # Errors
/// The reason why not, for [`crate::skipped`].
pub fn may_profile(agent: &Path) -> Result<(), &'static str> {
    suffices(rustix::process::geteuid().is_root(), has_file_capabilities(agent))
}

fn suffices(is_root: bool, has_capabilities: bool) -> Result<(), &'static str> {
    if is_root || has_capabilities {
        return Ok(());
    }
    Err("needs root, or a perf-agent with file capabilities (perf-agent doctor says which)")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn root_or_file_capabilities_are_needed() {
        assert!(suffices(true, false).is_ok() && suffices(false, true).is_ok());
        assert!(suffices(false, false).is_err_and(|reason| reason.contains("needs root")));
    }

    #[test]
    fn file_capabilities_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, "").unwrap();
        assert!(!has_file_capabilities(&file) && !has_file_capabilities(Path::new("/nonexistent")));
        let set = Command::new(crate::need!("setcap")).arg("cap_bpf+ep").arg(&file).output().unwrap();
        if !set.status.success() {
            crate::skip!("setcap failed: {}", String::from_utf8_lossy(&set.stderr));
        }
        assert!(has_file_capabilities(&file));
        assert_eq!(may_profile(&file), Ok(()));
    }
}
