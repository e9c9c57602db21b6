//! How the returns of an allocator's functions are seen.
//!
//! A return probe replaces the return address of a function. Neither an exception nor the unwinding of a cancelled thread passes such an
//! address: the program ends there. So only functions of C in known allocators have return probes: nothing throws in them, and they call no
//! code of the program. All others are probed at their instructions that return, which costs more, or not at all where each of their returns is
//! behind a call of a function that is recorded itself, as `operator new` calls `malloc`.

use std::collections::BTreeSet;

use kernel::HeapProgram;
use probes::{Binary, CallReturns, Callee, Location};

use super::functions;

/// How the returns of one function are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    /// Its entry is enough.
    NotNeeded,
    /// By a return probe.
    ByProbe,
    /// At these offsets in the file.
    At(Vec<u64>),
    /// It needs no probe: the functions that it calls are recorded.
    BehindInner,
    /// Its code is not understood.
    Unknown(String),
}

/// A function that is to be recorded.
pub(super) struct Wanted<'w> {
    pub(super) location: &'w Location,
    pub(super) program: HeapProgram,
    pub(super) is_cpp: bool,
}

/// Decides for each function. `return_probes`: targets survive them on this kernel.
pub(super) fn decide(binary: &Binary, wanted: &[Wanted<'_>], return_probes: bool) -> Vec<Returns> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let by_probe = return_probes && is_known_allocator(binary, wanted);
    let of_c = |wanted: &Wanted<'_>| match wanted.program {
        HeapProgram::Freed => Returns::NotNeeded,
        _ if by_probe => Returns::ByProbe,
        _ => all_returns(binary, wanted.location, &|_| false),
    };
    let mut decided: Vec<Option<Returns>> =
        wanted.iter().map(|wanted| (!wanted.is_cpp).then(|| of_c(wanted))).collect();
    // Operators call other operators.
    loop {
        let before = decided.iter().flatten().count();
        for (index, one) in wanted.iter().enumerate() {
            if decided.get(index).is_some_and(Option::is_some) {
                continue;
            }
            let inner = Inner::of(wanted, &decided, one.program);
            if all_returns(binary, one.location, &|callee| inner.has(callee)) == Returns::BehindInner
                && let Some(place) = decided.get_mut(index)
            {
                *place = Some(Returns::BehindInner);
            }
        }
        if decided.iter().flatten().count() == before {
            break;
        }
    }
    let rest = |(one, decided): (&Wanted<'_>, Option<Returns>)| match (decided, one.program) {
        (Some(decided), _) => decided,
        (None, HeapProgram::Freed) => Returns::NotNeeded,
        (None, _) => all_returns(binary, one.location, &|_| false),
    };
    wanted.iter().zip(decided).map(rest).collect()
}

/// Functions that are recorded when a function of some kind calls them.
struct Inner {
    addresses: BTreeSet<u64>,
    frees: bool,
}

impl Inner {
    fn of(wanted: &[Wanted<'_>], decided: &[Option<Returns>], program: HeapProgram) -> Self {
        let frees = program == HeapProgram::Freed;
        let is_recorded = |returns: &Option<Returns>| !matches!(returns, None | Some(Returns::Unknown(_)));
        let recorded = wanted
            .iter()
            .zip(decided)
            .filter(|(one, returns)| (one.program == HeapProgram::Freed) == frees && is_recorded(returns));
        Self { addresses: recorded.map(|(one, _)| one.location.address).collect(), frees }
    }

    fn has(&self, callee: Callee<'_>) -> bool {
        match callee {
            Callee::At(address) => self.addresses.contains(&address),
            // The file that defines it is searched for it too.
            Callee::Import(name) => functions::program_of(name)
                .is_some_and(|program| (program == HeapProgram::Freed) == self.frees),
        }
    }
}

fn all_returns(binary: &Binary, location: &Location, is_inner: &dyn Fn(Callee<'_>) -> bool) -> Returns {
    match binary.call_returns(location, is_inner) {
        Ok(CallReturns::BehindInner) => Returns::BehindInner,
        Ok(CallReturns::At(offsets)) => Returns::At(offsets),
        Err(error) => Returns::Unknown(error.to_string()),
    }
}

/// Whether the functions of C in the file are those of glibc, musl, jemalloc or mimalloc. (In tcmalloc, hooks of the program may run in them, and a thread may be
/// cancelled there.)
fn is_known_allocator(binary: &Binary, wanted: &[Wanted<'_>]) -> bool {
    if !binary.functions(&["mallctl", "je_mallctl", "_rjem_mallctl", "mi_malloc"]).is_empty() {
        return true;
    }
    if binary.exports("malloc") && binary.exports("__libc_start_main") {
        return true;
    }
    // In a static program, `malloc` may be the program's own.
    let named = |name: &str| binary.functions(&[name]).first().map(|(_, location)| location.address);
    let is_own = |alias: &str| {
        let address = named(alias);
        address.is_some() && wanted.iter().any(|one| Some(one.location.address) == address)
    };
    is_own("default_malloc") || named("_int_malloc").is_some() && is_own("__libc_malloc")
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::path::Path;

    use super::*;

    /// What is decided for the functions of the C library of this machine: name and decision.
    fn of_libc(return_probes: bool) -> Option<Vec<(&'static str, Returns)>> {
        let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        let binary = Binary::open(path).ok()?;
        let names = functions::names();
        let found = binary.functions(&names);
        let numbers: Vec<usize> = found.iter().map(|(number, _)| *number).collect();
        let wanted: Vec<Wanted<'_>> = found
            .iter()
            .zip(functions::programs(&numbers))
            .filter_map(|((number, location), program)| {
                Some(Wanted { location, program: program?, is_cpp: functions::is_cpp(*number) })
            })
            .collect();
        let decided = decide(&binary, &wanted, return_probes);
        let name = |wanted: &Wanted<'_>| {
            names.iter().find(|name| Some(**name) == wanted.location.symbol.as_deref()).copied()
        };
        Some(wanted.iter().filter_map(name).zip(decided).collect())
    }

    #[test]
    fn the_c_library_has_return_probes_only_where_programs_survive_them() {
        let (Some(with), Some(without)) = (of_libc(true), of_libc(false)) else {
            testkit::skip!("the C library is elsewhere");
        };
        let of = |all: &[(&str, Returns)], name: &str| {
            all.iter().find(|(known, _)| *known == name).map(|(_, returns)| returns.clone())
        };
        // (calloc ends by a jump to the memset that the loader chooses.)
        for name in ["malloc", "realloc", "posix_memalign"] {
            assert_eq!(of(&with, name), Some(Returns::ByProbe), "{name}");
            let without = of(&without, name);
            assert!(matches!(&without, Some(Returns::At(at)) if !at.is_empty()), "{name}: {without:?}");
        }
        assert_eq!(of(&without, "free"), Some(Returns::NotNeeded));
        assert!(!without.iter().any(|(_, returns)| *returns == Returns::ByProbe));
    }
}
