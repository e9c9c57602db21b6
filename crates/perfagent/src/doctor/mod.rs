//! Checks what works on this machine, what does not, and how to fix it.
//!
//! Guaranteed: it leaves nothing behind. The checks are independent: if one cannot run, the others still do. A check fails
//! only if every mode needs its subject; a missing optional feature is a warning.
//! Not here: printing.

mod check;
mod debuginfod;
mod events;
mod kernel;
mod live;
mod places;
mod privileges;
mod sysctls;

pub use check::{Check, Status};

/// Runs all checks.
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
        places::user_namespace(),
        places::time_namespace(),
        debuginfod::servers(),
    ]);
    checks.extend(live::checks());
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_value_and_a_fix_unless_ok() {
        let checks = run();
        assert_eq!(checks.len(), 21);
        for check in &checks {
            assert!(!check.value.is_empty() && !check.affects.is_empty(), "{check:?}");
            assert!(check.status == Status::Ok || check.fix.is_some(), "{check:?}");
            assert!(!check.value.contains('\n'), "{check:?}");
        }
        let names: std::collections::HashSet<_> = checks.iter().map(|check| check.check).collect();
        assert_eq!(names.len(), checks.len());
    }
}
