//! Whether return probes are safe for programs with a filter of system calls.
//!
//! On x86-64 a probed function returns through code of the kernel, which since Linux 6.11 ends with the system call `uretprobe`. Filters of
//! seccomp refuse that call, which ends the program, until the kernels that let it pass ("seccomp: passthrough uretprobe systemcall without
//! filtering"): 6.14, and the stable releases 6.13.3 and 6.12.14. A kernel that has the mend under an older number counts as one without.

/// Whether a program with a filter survives return probes on this kernel. A program may set its filter at any time, so where it does not, no
/// program is to have return probes.
#[must_use]
pub fn return_probes_pass_filters() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        return true;
    }
    std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| pass_in(&release))
}

fn pass_in(release: &str) -> bool {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version: (u32, u32, u32) = (next(), next(), next());
    match version {
        (6, 12, stable) => stable >= 14,
        (6, 13, stable) => stable >= 3,
        (major, minor, _) => (major, minor) != (6, 11) && major > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_system_call_and_without_the_mend_are_known() {
        for (release, wanted) in [
            ("5.10.0-30-amd64", true),
            ("6.10.11", true),
            ("6.11.0-29-generic", false),
            ("6.11.11+bpo-amd64", false),
            ("6.12.0-55.el10.x86_64", false),
            ("6.12.13", false),
            ("6.12.14", true),
            ("6.12.48+deb13-amd64", true),
            ("6.13.2", false),
            ("6.13.3", true),
            ("6.14.0-rc1", true),
            ("6.18.5", true),
            ("7.0.0", true),
            ("", false),
        ] {
            assert_eq!(pass_in(release), wanted, "{release}");
        }
    }
}
