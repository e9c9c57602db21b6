//! Go's runtime: it samples its allocations for the heap profile that each program may serve, unless the linker has found that the program asks for none.

use std::path::Path;

use kernel::{HeapProgram, HeapSite, HeapWeight};
use probes::Binary;

use super::{Point, Sampler, SamplerKind, all_of, point, word};

/// `func profilealloc(mp *m, x unsafe.Pointer, size uintptr)`
const SAMPLES: &str = "runtime.profilealloc";
/// `func freeSpecial(s *special, p unsafe.Pointer, size uintptr)`, which calls the next one if `s` is a sample.
const FREES: &str = "runtime.freeSpecial";
/// `func mProf_Free(b *bucket, size uintptr)`
const FREES_SAMPLE: &str = "runtime.mProf_Free";
/// `func mallocgc(size uintptr, typ *_type, needzero bool) unsafe.Pointer`
const ALLOCATES: &str = "runtime.mallocgc";

/// The variable with the mean number of bytes between two samples, and the one by which the linker makes it 0.
const RATE: &str = "runtime.MemProfileRate";
const IS_OFF: &str = "runtime.disableMemoryProfiling";

/// The registers of the first three arguments, since Go 1.17.
const FIRST: [&str; 2] = ["ax", "x0"];
const SECOND: [&str; 2] = ["bx", "x1"];
const THIRD: [&str; 2] = ["cx", "x2"];

/// What a program in Go offers.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sources::heap) struct Go {
    /// The runtime's samples. None: the linker has left them out.
    pub(in crate::sources::heap) sampler: Option<Sampler>,
    /// The function through which every allocation goes.
    pub(in crate::sources::heap) every: Point,
}

/// Looks for the functions. None if the file has no symbol table, or is of a version that passes arguments on the stack.
pub(in crate::sources::heap) fn find(binary: &Binary, path: &Path) -> Option<Go> {
    if !binary.is_go() {
        return None;
    }
    let [samples, frees, frees_sample, allocates] =
        all_of(binary, [SAMPLES, FREES, FREES_SAMPLE, ALLOCATES])?;
    // Before Go 1.17, functions begin in another way, which the kernel does not emulate.
    if cfg!(target_arch = "x86_64") && !binary.place(&samples).is_emulated {
        return None;
    }
    let rate = binary.variable(RATE)?;
    let sampled = |probe: u64| {
        let distance = rate.wrapping_sub(probe).cast_signed();
        let weight = HeapWeight::EveryIn { distance, is_logarithm: false };
        Some(HeapSite {
            address: Some(word(SECOND, &[])?),
            size: Some(word(THIRD, &[])?),
            weight,
            ..HeapSite::default()
        })
    };
    let noted = |_| Some(HeapSite { address: Some(word(SECOND, &[])?), ..HeapSite::default() });
    let alone = |_| Some(HeapSite { size: Some(word(FIRST, &[])?), ..HeapSite::default() });
    let points = vec![
        point(binary, path, &samples, HeapProgram::Sampled, sampled),
        point(binary, path, &frees, HeapProgram::ObjectNoted, noted),
        point(binary, path, &frees_sample, HeapProgram::SampleFreed, |_| None),
    ];
    let is_on = binary.initial_byte(IS_OFF).is_none_or(|off| off == 0);
    Some(Go {
        sampler: is_on.then_some(Sampler { kind: SamplerKind::Go, points }),
        every: point(binary, path, &allocates, HeapProgram::Sampled, alone),
    })
}
