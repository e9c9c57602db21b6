//! Whether programs that change hash tables may run as NMIs on this kernel.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;

/// Whether events of the hardware, which may come as NMIs, may take samples. An NMI could interrupt a change of a table that the program
/// also changes. Before Linux 5.11 the program would then wait for its own CPU forever. Later kernels notice that: until 6.14 by the
/// member `map_locked` of a table, then by their kind of lock. False if the kernel does not describe its types.
#[must_use]
pub fn nmi_may_sample() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    let notes_its_cpu = btf
        .type_by_name::<Struct<'_>>("bpf_htab")
        .is_some_and(|table| table.iter().any(|member| member.name.is_some_and(|name| name == "map_locked")));
    notes_its_cpu || btf.type_by_name::<Struct<'_>>("rqspinlock").is_some()
}
