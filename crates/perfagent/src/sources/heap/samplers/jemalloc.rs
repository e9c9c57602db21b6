//! jemalloc 5.3 with its profiler on (`opt.prof`): it samples its allocations for profiles that it writes itself.

use std::path::Path;

use kernel::{HeapProgram, HeapSite, HeapWeight, SharedObjects};
use probes::Binary;

use super::{Sampler, SamplerKind, all_of, point, word};

/// What names begin with: as it is built by default, with a prefix, and as Rust links it.
const PREFIXES: [&str; 4] = ["", "je_", "_rjem_je_", "jemalloc_"];

/// `void prof_malloc_sample_object(tsd_t *tsd, const void *ptr, size_t size, size_t usize, prof_tctx_t *tctx)`
const SAMPLES: &str = "prof_malloc_sample_object";
/// `void prof_free_sampled_object(tsd_t *tsd, size_t usize, prof_info_t *prof_info)` in 5.3.0, and later
/// `void prof_free_sampled_object(tsd_t *tsd, const void *ptr, size_t usize, prof_info_t *prof_info)`.
const FREES_SAMPLE: &str = "prof_free_sampled_object";
/// What 5.3.0 and later versions have; before, functions have other parameters.
const SINCE_5_3: &str = "te_event_trigger";
/// What versions after 5.3.0 have.
const AFTER_5_3_0: &str = "prof_sample_free_hook_set";

/// Where a `prof_info_t` has the time of the allocation, and the counts of its stack and thread.
const INFO_TIME: i64 = 0;
const INFO_TCTX: i64 = 8;

const SECOND: [&str; 2] = ["si", "x1"];
const THIRD: [&str; 2] = ["dx", "x2"];
const FOURTH: [&str; 2] = ["cx", "x3"];
const FIFTH: [&str; 2] = ["r8", "x4"];

/// A jemalloc in a file that may sample.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sources::heap) struct Jemalloc {
    pub(in crate::sources::heap) sampler: Sampler,
    /// The link-time addresses of variables, each of one byte, that are all 1 if it does.
    pub(in crate::sources::heap) switches: Vec<u64>,
}

/// Looks for the functions. None if the file has no jemalloc of a known version, or not their names. `now_ns`: `CLOCK_MONOTONIC`, before the recording
/// begins.
pub(in crate::sources::heap) fn find(binary: &Binary, path: &Path, now_ns: u64) -> Option<Jemalloc> {
    PREFIXES.iter().find_map(|prefix| with_prefix(binary, path, prefix, now_ns))
}

fn with_prefix(binary: &Binary, path: &Path, prefix: &str, now_ns: u64) -> Option<Jemalloc> {
    let name = |of: &str| format!("{prefix}{of}");
    let names = [SAMPLES, FREES_SAMPLE, SINCE_5_3].map(name);
    let [samples, frees_sample, _] = all_of(binary, names.each_ref().map(String::as_str))?;
    let tells_object = !binary.functions(&[&name(AFTER_5_3_0)]).is_empty();
    let rate = binary.variable(&name("lg_prof_sample"))?;
    let switches = [name("opt_prof"), name("prof_active_state")];
    let switches = switches.iter().map(|variable| binary.variable(variable)).collect::<Option<_>>()?;
    let weight = |probe: u64| HeapWeight::EveryIn {
        distance: rate.wrapping_sub(probe).cast_signed(),
        is_logarithm: true,
    };
    let shared = |time| (!tells_object).then_some(SharedObjects { time, begin_ns: now_ns });
    let sampled = |probe: u64| {
        let address = Some(word(if tells_object { SECOND } else { FIFTH }, &[])?);
        Some(HeapSite {
            address,
            size: Some(word(FOURTH, &[])?),
            weight: weight(probe),
            shared: shared(None),
        })
    };
    let freed = |probe: u64| {
        if tells_object {
            return Some(HeapSite { address: Some(word(SECOND, &[])?), ..HeapSite::default() });
        }
        Some(HeapSite {
            address: Some(word(THIRD, &[INFO_TCTX])?),
            size: Some(word(SECOND, &[])?),
            weight: weight(probe),
            shared: shared(Some(word(THIRD, &[INFO_TIME])?)),
        })
    };
    let points = vec![
        point(binary, path, &samples, HeapProgram::Sampled, sampled),
        point(binary, path, &frees_sample, HeapProgram::SampleFreed, freed),
    ];
    Some(Jemalloc { sampler: Sampler { kind: SamplerKind::Jemalloc, points }, switches })
}
