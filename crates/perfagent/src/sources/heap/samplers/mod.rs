//! Allocators that sample themselves: where they tell of a sample and of the end of a sampled object.
//!
//! In: Go's runtime ([`go`]), jemalloc with its profiler on ([`jemalloc`]), and whatever has the USDT probes of OpenTelemetry ([`otel`]).
//! Not here: what a sample stands for (`bpf/heap_samples.h`).

pub(super) mod go;
pub(super) mod jemalloc;
pub(super) mod otel;

use std::path::Path;

use events::monitor::FunctionPlace;
use kernel::{HeapProgram, HeapSite, ProbeRegister, ValueFrom, ValuePlan};
use probes::{Binary, Location};

/// Who takes the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SamplerKind {
    Go,
    Jemalloc,
    OtelMemory,
}

impl SamplerKind {
    /// What the ledger calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Jemalloc => "jemalloc",
            Self::OtelMemory => "otel_memory",
        }
    }

    /// What messages call it.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Go => "the runtime of Go samples its allocations",
            Self::Jemalloc => "jemalloc samples its allocations (opt.prof)",
            Self::OtelMemory => "the target tells samples of its allocations by the probes of otel_memory",
        }
    }
}

/// A place to probe, with what its program must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) program: HeapProgram,
    pub(super) place: FunctionPlace,
    pub(super) site: Option<HeapSite>,
}

/// What a file has of an allocator that samples itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sampler {
    pub(super) kind: SamplerKind,
    pub(super) points: Vec<Point>,
}

/// Where the functions with these names are, in their order. None if one is missing.
fn all_of<const N: usize>(binary: &Binary, names: [&str; N]) -> Option<[Location; N]> {
    let found = binary.functions(&names);
    let one = |number| found.iter().find(|(of, _)| *of == number).map(|(_, location)| location.clone());
    let all: Vec<Location> = (0..N).map_while(one).collect();
    all.try_into().ok()
}

/// The point at a function, and the link-time address of its probe.
fn point(
    binary: &Binary,
    path: &Path,
    location: &Location,
    program: HeapProgram,
    site: impl FnOnce(u64) -> Option<HeapSite>,
) -> Point {
    let placement = binary.place(location);
    let place = FunctionPlace { path: path.to_owned(), offset: placement.offset, counter: None };
    Point { program, place, site: site(placement.address) }
}

/// A word in a register, or behind it in memory. The first name is that of x86-64, the second that of aarch64.
fn word(names: [&str; 2], offsets: &[i64]) -> Option<ValuePlan> {
    let register = names.into_iter().find_map(ProbeRegister::named)?;
    let from = ValueFrom::Register { register, offsets: offsets.to_vec(), in_kernel: false };
    Some(ValuePlan::integer(from, 8, false))
}
