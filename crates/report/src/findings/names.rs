//! Names that were not found for a reason known to symbolization.

use recording::{KernelNaming, NameOutcome};

use super::finding::{Finding, FindingKind};

/// The findings of symbolization.
pub(super) fn of(outcome: &NameOutcome) -> Vec<Finding> {
    let mut findings: Vec<_> = of_kernel(&outcome.kernel).into_iter().collect();
    findings.extend(outcome.shortfalls.iter().map(|message| Finding::bare(FindingKind::Names, message)));
    if outcome.abandoned > 0 {
        let message = format!(
            "symbolization was abandoned: {} places in code were not looked up and stay addresses",
            outcome.abandoned
        );
        findings.push(Finding::bare(FindingKind::Names, message));
    }
    findings
}

fn of_kernel(naming: &KernelNaming) -> Option<Finding> {
    match naming {
        KernelNaming::NotAsked | KernelNaming::Known => None,
        KernelNaming::Hidden => Some(Finding::bare(
            FindingKind::KernelNamesHidden,
            "kernel frames stay addresses: the kernel hides them from this process",
        )),
        KernelNaming::Unreadable(reason) => {
            Some(Finding::bare(FindingKind::Names, format!("kernel frames stay addresses: {reason}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_symbolization_could_not_do_is_told_in_one_order() {
        let outcome = NameOutcome {
            kernel: KernelNaming::Unreadable("read /proc/kallsyms: no such file".to_owned()),
            abandoned: 3,
            shortfalls: vec!["a perf map was cut".to_owned()],
            ..NameOutcome::default()
        };
        let messages: Vec<_> = of(&outcome).into_iter().map(|finding| finding.message).collect();
        assert_eq!(
            messages,
            [
                "kernel frames stay addresses: read /proc/kallsyms: no such file",
                "a perf map was cut",
                "symbolization was abandoned: 3 places in code were not looked up and stay addresses",
            ]
        );
    }

    #[test]
    fn hidden_kernel_addresses_have_a_kind_of_their_own_and_known_ones_are_not_told() {
        let kinds = |kernel| {
            let findings = of(&NameOutcome { kernel, ..NameOutcome::default() });
            findings.into_iter().map(|finding| (finding.kind, finding.hint)).collect::<Vec<_>>()
        };
        assert_eq!(kinds(KernelNaming::Hidden), [(FindingKind::KernelNamesHidden, None)]);
        assert_eq!(kinds(KernelNaming::Known), []);
    }
}
