//! Privileges of this process, and the commands that grant missing ones.
//!
//! Guaranteed: only [`raise_permitted`] changes privileges; a program calls it before its first thread.

use std::path::Path;

use sys::caps;

use crate::capabilities;
use crate::error::Error;

/// Every capability that the agent can use, as `setcap` takes them.
const SETCAP: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore,cap_ipc_lock+ep";

/// Adds the permitted capabilities of this thread to its effective set. Threads created later inherit them, so call this
/// first.
///
/// # Errors
/// [`Error::System`] if the kernel refuses.
pub fn raise_permitted() -> Result<(), Error> {
    caps::raise_permitted().map(drop).map_err(|source| Error::System {
        attempt: "move the permitted capabilities into the effective set".to_owned(),
        source,
    })
}

/// The command that lets this program run without root.
#[must_use]
pub fn setcap_line() -> String {
    let binary = std::env::current_exe().unwrap_or_else(|_| "PATH".into());
    format!("sudo setcap {SETCAP} {}", quoted(&binary))
}

/// The sysctl `kernel.kptr_restrict`.
pub(crate) fn kptr_restrict() -> Option<i64> {
    std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").ok()?.trim().parse().ok()
}

/// The command that makes hidden kernel addresses visible, by the rules of `kallsyms_show_value` of the kernel.
pub(crate) fn kernel_addresses_fix(kptr_restrict: Option<i64>) -> &'static str {
    match kptr_restrict {
        // With 0, users who may profile the kernel see the addresses.
        Some(..=0) => "grant cap_syslog, or `sysctl -w kernel.perf_event_paranoid=1`",
        Some(1) | None => {
            "grant cap_syslog, or `sysctl -w kernel.kptr_restrict=0 kernel.perf_event_paranoid=1`"
        }
        Some(2..) => {
            "`sysctl -w kernel.kptr_restrict=1` and grant cap_syslog: 2 hides the addresses from everyone"
        }
    }
}

/// The path for a shell, quoted if necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Checks that this thread may load programs and open events and, if it `traces`, stop threads of other processes.
///
/// # Errors
/// [`Error::Privilege`] with the missing capabilities; [`Error::System`] if the capabilities cannot be read.
pub(crate) fn require(traces: bool) -> Result<(), Error> {
    let effective = caps::effective().map_err(|source| Error::System {
        attempt: "read the capabilities of this process".to_owned(),
        source,
    })?;
    let missing = capabilities::missing(effective, traces);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = caps::names(missing).map(str::to_owned).collect();
    Err(Error::Privilege { missing, setcap_line: setcap_line() })
}

/// What the kernel's refusal by `EPERM` or `EACCES` comes from: missing capabilities, or what confines this process beside them.
pub(crate) fn refusal(attempt: &str) -> Error {
    if let Err(missing) = require(false) {
        return missing;
    }
    let (cause, hint) = sys::confinement::confinement().cause();
    Error::Refused { attempt: attempt.to_owned(), cause, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_binary_and_every_capability() {
        let line = setcap_line();
        assert!(line.starts_with("sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,"), "{line}");
        assert!(line.ends_with(std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap()));
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
