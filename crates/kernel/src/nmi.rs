//! Whether the sampler may run on this kernel as NMIs, where locks are held, and where it can be preempted.

use libbpf_rs::btf::types::Struct;
use libbpf_rs::btf::{Btf, BtfType};

/// Whether events of the hardware, which may come as NMIs, may take samples. An NMI could interrupt a change of a table that the program
/// also changes. Before Linux 5.11 the program would then wait for its own CPU forever. Later kernels notice that: until 6.14 by the
/// member `map_locked` of a table, then by their kind of lock. False if the kernel does not describe its types.
#[must_use]
pub fn nmi_may_sample() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    let notes_its_cpu = btf
        .type_by_name::<Struct<'_>>("bpf_htab")
        .is_some_and(|table| table.iter().any(|member| member.name.is_some_and(|name| name == "map_locked")));
    notes_its_cpu || has_resilient_locks(&btf)
}

/// Whether all locks of tables and rings notice that this CPU holds them: since Linux 6.15. Only there may a tracepoint take samples that
/// happens while a program holds such a lock, as those of locks do.
#[must_use]
pub fn locks_notice_their_cpu() -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| has_resilient_locks(&btf))
}

/// Whether waits for locks of the kernel may be recorded: the kernel tells of them (5.19), and the locks of tables and rings notice their CPU
/// (6.15).
#[must_use]
pub fn kernel_locks_may_be_followed() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    btf.type_by_name::<BtfType<'_>>("btf_trace_contention_begin").is_some() && has_resilient_locks(&btf)
}

/// Whether a probe of a program may take samples. A kernel with private stacks for programs (6.13) must let the entry turn preemption off and call
/// functions that are verified by themselves then: since 6.15.
#[must_use]
pub fn probes_may_sample() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    let has = |name: &str, wanted: &str| {
        let found = btf.type_by_name::<Struct<'_>>(name);
        found.is_some_and(|found| found.iter().any(|member| member.name.is_some_and(|name| name == wanted)))
    };
    !has("bpf_prog_aux", "priv_stack_ptr") || has("bpf_subprog_info", "might_sleep")
}

fn has_resilient_locks(btf: &Btf<'_>) -> bool {
    btf.type_by_name::<BtfType<'_>>("rqspinlock_t").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_is_judged_by_what_its_version_has() {
        if let Err(reason) = testkit::has_btf() {
            testkit::skip!("{reason}");
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(nmi_may_sample(), version >= (5, 11), "{release}");
        assert_eq!(locks_notice_their_cpu(), version >= (6, 15), "{release}");
        assert_eq!(kernel_locks_may_be_followed(), version >= (6, 15), "{release}");
        assert_eq!(probes_may_sample(), !((6, 13)..(6, 15)).contains(&version), "{release}");
    }
}
