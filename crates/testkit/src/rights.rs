//! Whether a test has the rights that profiling needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Whether a file has capabilities, which every process that executes it gets.
#[must_use]
pub fn has_file_capabilities(file: &Path) -> bool {
    let mut value = [0; 64];
    rustix::fs::getxattr(file, c"security.capability", &mut value).is_ok_and(|length| length > 0)
}

/// Whether this user may profile with that perf-agent, by `perf-agent doctor`: as root or because the file has capabilities, where
/// the kernel and the container allow it.
///
/// # Errors
/// The reason why not, for [`crate::skipped`].
///
/// # Panics
/// If `perf-agent doctor` does not run.
pub fn may_profile(agent: &Path) -> Result<(), String> {
    static TRIED: Mutex<BTreeMap<PathBuf, Result<(), String>>> = Mutex::new(BTreeMap::new());
    suffices(rustix::process::geteuid().is_root(), has_file_capabilities(agent))?;
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let examine = || {
        let output = Command::new(agent).args(["doctor", "--json"]).output();
        verdict(&output.unwrap_or_else(|error| panic!("{}: {error}", agent.display())).stdout)
    };
    tried.entry(agent.to_owned()).or_insert_with(examine).clone()
}

/// Whether the kernel describes its types, which BPF programs need.
///
/// # Errors
/// The reason of a skip.
pub fn has_btf() -> Result<(), &'static str> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Ok(());
    }
    Err("needs BTF: /sys/kernel/btf/vmlinux is missing")
}

/// Whether a seccomp filter judges the system calls of this process and its children, as in most containers.
#[must_use]
pub fn has_seccomp_filter() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() != "0")
}

fn suffices(is_root: bool, has_capabilities: bool) -> Result<(), String> {
    if is_root || has_capabilities {
        return Ok(());
    }
    Err("needs root, or a perf-agent with file capabilities (perf-agent doctor says which)".to_owned())
}

/// The first check of `perf-agent doctor --json` that failed, as a reason of a skip.
fn verdict(checks: &[u8]) -> Result<(), String> {
    let checks: Vec<Value> = serde_json::from_slice(checks).expect("perf-agent doctor prints JSON");
    let Some(check) = checks.iter().find(|check| check["status"] == "fail") else { return Ok(()) };
    let [name, value] = ["check", "value"].map(|key| check[key].as_str().unwrap_or_default());
    Err(format!("needs BPF and perf events: {name}: {value}"))
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn the_check_that_failed_is_the_reason() {
        let check =
            |name: &str, status: &str| serde_json::json!({"check": name, "status": status, "value": "of it"});
        let checks = |[first, last]: [&str; 2]| {
            serde_json::to_string(&[check("btf", first), check("bpf load", last)]).unwrap()
        };
        assert_eq!(verdict(checks(["ok", "warn"]).as_bytes()), Ok(()));
        let reason = verdict(checks(["ok", "fail"]).as_bytes()).unwrap_err();
        assert_eq!(reason, "needs BPF and perf events: bpf load: of it");
    }
}
