//! Why the kernel refuses a call although this process has the capabilities for it: they hold in a user namespace only, a seccomp filter refuses
//! the call, or a security module does.

use std::path::PathBuf;

/// `PROC_USER_INIT_INO`: the first user namespace, as its link shows it.
const INITIAL_NAMESPACE: &str = "user:[4026531837]";

/// Modules that refuse nothing to a process with capabilities.
const HARMLESS: [&str; 3] = ["capability", "landlock", "integrity"];

/// Restrictions of this process beside its capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confinement {
    /// The user namespace, unless the process is in the first one.
    pub user_namespace: Option<String>,
    /// It has a seccomp filter, which it cannot remove.
    pub has_seccomp_filter: bool,
    /// The security modules of the kernel that may refuse a call.
    pub modules: Vec<String>,
}

/// The restrictions of this process.
#[must_use]
pub fn confinement() -> Confinement {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Confinement::of(
        std::fs::read_link("/proc/self/ns/user").ok(),
        &read("/proc/thread-self/status"),
        &read("/sys/kernel/security/lsm"),
    )
}

impl Confinement {
    fn of(namespace: Option<PathBuf>, status: &str, modules: &str) -> Self {
        let namespace = namespace.map(|link| link.display().to_string());
        let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        let modules =
            modules.trim().split(',').filter(|module| !module.is_empty() && !HARMLESS.contains(module));
        Self {
            user_namespace: namespace.filter(|link| link != INITIAL_NAMESPACE),
            has_seccomp_filter: seccomp.is_some_and(|mode| mode.trim() == "2"),
            modules: modules.map(str::to_owned).collect(),
        }
    }

    /// The likely cause of a refusal by `EPERM` or `EACCES`, and the remedy.
    #[must_use]
    pub fn cause(&self) -> (String, &'static str) {
        if let Some(namespace) = &self.user_namespace {
            let cause = format!(
                "its capabilities hold in its user namespace {namespace} only, and the kernel asks for them in the first user namespace"
            );
            return (
                cause,
                "run perf-agent as root outside of the user namespace, or in a container that is not rootless",
            );
        }
        if self.has_seccomp_filter {
            return (
                "it has a seccomp filter, which refuses the system call".to_owned(),
                "let the filter pass bpf and perf_event_open; in a container for example by --security-opt seccomp=unconfined",
            );
        }
        let modules = self.modules.join(", ");
        let which = if modules.is_empty() { String::new() } else { format!(" ({modules})") };
        (
            format!("a security module{which} refuses it"),
            "the kernel's log or the audit log names the rule: dmesg",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_the_namespace_then_the_filter_then_a_module() {
        let of = |link: &str, seccomp: u32, modules: &str| {
            let status = format!("Name:\tx\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n");
            Confinement::of(Some(link.into()), &status, modules).cause().0
        };
        let nested = of("user:[4026532000]", 2, "capability,apparmor");
        assert!(nested.contains("user namespace user:[4026532000]"), "{nested}");
        assert!(of(INITIAL_NAMESPACE, 2, "capability,apparmor").contains("seccomp"));
        let module = of(INITIAL_NAMESPACE, 0, "lockdown,capability,landlock,apparmor\n");
        assert_eq!(module, "a security module (lockdown, apparmor) refuses it");
        assert_eq!(of(INITIAL_NAMESPACE, 1, "capability"), "a security module refuses it");
        assert_eq!(Confinement::of(None, "", ""), Confinement::default());
    }
}
