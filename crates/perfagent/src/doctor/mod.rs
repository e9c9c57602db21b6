//! What works on this machine, what does not, and how to fix it.
//!
//! Guaranteed: leaves nothing behind; each check stands alone, so that one that cannot be made does not hide the others.
//! A check fails only if every mode needs it; what merely takes something away is a warning.
//! Not here: printing.

mod events;
mod kernel;
mod live;
mod places;
mod privileges;
mod sysctls;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Fine.
    Ok,
    /// Something is lost.
    Warn,
    /// Nothing works without it.
    Fail,
}

impl Status {
    /// `ok`, `warn` or `fail`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was looked at.
    pub check: &'static str,
    /// The verdict.
    pub status: Status,
    /// The value found.
    pub value: String,
    /// What depends on it.
    pub affects: &'static str,
    /// What to do, where there is something to do.
    pub fix: Option<String>,
}

impl Check {
    fn new(check: &'static str, affects: &'static str, status: Status, value: impl Into<String>) -> Self {
        Self { check, status, value: value.into(), affects, fix: None }
    }

    fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Makes every check.
#[must_use]
pub fn run() -> Vec<Check> {
    let mut checks = vec![kernel::release(), kernel::btf(), privileges::capabilities(), kernel::lockdown()];
    checks.extend(sysctls::checks());
    checks.extend([
        sysctls::kallsyms(),
        sysctls::ptrace_scope(),
        events::sampling(),
        events::pmu(),
        places::tracefs(),
        events::probes(),
        places::cgroup(),
        places::pid_namespace(),
    ]);
    checks.extend(live::checks());
    checks
}

/// The trimmed text of a small file of the kernel.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_something() {
        let checks = run();
        assert_eq!(checks.len(), 18);
        for check in &checks {
            assert!(!check.value.is_empty() && !check.affects.is_empty(), "{check:?}");
            assert!(check.status == Status::Ok || check.fix.is_some(), "{check:?}");
            assert!(!check.value.contains('\n'), "{check:?}");
        }
        let names: std::collections::HashSet<_> = checks.iter().map(|check| check.check).collect();
        assert_eq!(names.len(), checks.len());
    }
}
