//! What is recorded of that which was found: the samples of allocators that take some, or calls of functions.

use std::collections::{BTreeMap, BTreeSet};

use events::monitor::FunctionPlace;
use kernel::{HeapSite, MAX_HEAP_SITES};

use super::allocators::{Found, Places};
use super::samplers::{Point, SamplerKind};
use crate::config::HeapMode;

/// What a capture records. One thing only: samples and calls of one allocator would count its objects twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Calls of functions that allocate and free.
    Calls,
    /// The samples that allocators take themselves.
    Samples,
}

impl Recorded {
    /// By what the targets have at the start.
    pub(super) fn by(mode: HeapMode, found: &[Found]) -> Self {
        let samples = |found: &Found| {
            found.sampler.is_some() || found.go.as_ref().is_some_and(|go| go.sampler.is_some())
        };
        match mode == HeapMode::WhileCheap && found.iter().any(samples) {
            true => Self::Samples,
            false => Self::Calls,
        }
    }
}

/// The places to probe.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) places: Places,
    /// What the programs must know of some of them, by offset in the file.
    pub(super) sites: Vec<(u64, HeapSite)>,
    /// Who takes the samples.
    pub(super) kinds: BTreeSet<SamplerKind>,
    /// There are functions that allocate whose calls are not recorded.
    pub(super) leaves_calls: bool,
    /// There is a program in Go of which only allocations are recorded, not what is in use.
    pub(super) has_go_calls: bool,
    /// Files that were left out because the programs could not tell their places from others.
    pub(super) mistakable: usize,
    /// Where handlers of exceptions begin.
    pub(super) catches: Vec<FunctionPlace>,
    /// Functions that are not recorded, and why.
    pub(super) left_out: Vec<String>,
}

/// The places that the programs know already.
#[derive(Debug, Default)]
pub(super) struct KnownSites(BTreeMap<u32, HeapSite>);

impl KnownSites {
    /// Whether the programs can tell these places from all others. Then they are known.
    fn take(&mut self, points: &[Point]) -> bool {
        let mut all = self.0.clone();
        for point in points {
            let site = point.site.clone().unwrap_or_default();
            if all.insert(HeapSite::key(point.place.offset), site.clone()).is_some_and(|other| other != site)
            {
                return false;
            }
        }
        let fits = all.len() <= MAX_HEAP_SITES as usize;
        if fits {
            self.0 = all;
        }
        fits
    }
}

impl Choice {
    pub(super) fn of(found: Vec<Found>, recorded: Recorded, known: &mut KnownSites) -> Self {
        let mut choice = Self::default();
        for found in found {
            match recorded {
                Recorded::Calls => {
                    choice.catches.extend(found.catches);
                    choice.left_out.extend(found.left_out);
                    for (program, more) in found.places {
                        choice.places.entry(program).or_default().extend(more);
                    }
                    if let Some(go) = found.go {
                        choice.has_go_calls |= choice.take(vec![go.every], known);
                    }
                }
                Recorded::Samples => {
                    let of_go = found.go.and_then(|go| go.sampler);
                    choice.leaves_calls |= !found.places.is_empty() && found.sampler.is_none();
                    for sampler in of_go.into_iter().chain(found.sampler) {
                        if choice.take(sampler.points, known) {
                            choice.kinds.insert(sampler.kind);
                        }
                    }
                }
            }
        }
        choice
    }

    /// Takes the points of one file, if the programs can tell them apart.
    fn take(&mut self, points: Vec<Point>, known: &mut KnownSites) -> bool {
        if !known.take(&points) {
            self.mistakable += 1;
            return false;
        }
        for point in points {
            // A place without arguments is told too: one with the same key must not be taken for it.
            self.sites.push((point.place.offset, point.site.unwrap_or_default()));
            self.places.entry(point.program).or_default().push(point.place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use events::monitor::FunctionPlace;
    use kernel::{HeapProgram, HeapWeight};

    use super::*;
    use crate::sources::heap::samplers::Sampler;
    use crate::sources::heap::samplers::go::Go;

    fn point(offset: u64, rate: u64) -> Point {
        Point {
            program: HeapProgram::Sampled,
            place: FunctionPlace { path: PathBuf::new(), offset, counter: None },
            site: Some(HeapSite { weight: HeapWeight::Every(rate), ..HeapSite::default() }),
        }
    }

    fn with_sampler(points: Vec<Point>) -> Found {
        Found { sampler: Some(Sampler { kind: SamplerKind::OtelMemory, points }), ..Found::default() }
    }

    fn with_functions() -> Found {
        let place = FunctionPlace { path: PathBuf::new(), offset: 16, counter: None };
        Found { places: [(HeapProgram::Sized, vec![place])].into(), ..Found::default() }
    }

    #[test]
    fn samples_are_preferred_unless_exact_numbers_are_asked_for() {
        let found = || vec![with_functions(), with_sampler(vec![point(0x1010, 7)])];
        assert_eq!(Recorded::by(HeapMode::WhileCheap, &found()), Recorded::Samples);
        assert_eq!(Recorded::by(HeapMode::Exact, &found()), Recorded::Calls);
        assert_eq!(Recorded::by(HeapMode::WhileCheap, &[with_functions()]), Recorded::Calls);
        let samples = Choice::of(found(), Recorded::Samples, &mut KnownSites::default());
        assert_eq!((samples.places.len(), samples.sites.len(), samples.leaves_calls), (1, 1, true));
        assert!(samples.places.contains_key(&HeapProgram::Sampled));
        let calls = Choice::of(found(), Recorded::Calls, &mut KnownSites::default());
        assert!(calls.places.contains_key(&HeapProgram::Sized) && calls.sites.is_empty());
    }

    #[test]
    fn a_program_in_go_without_samples_has_its_calls_recorded() {
        let go = || Found { go: Some(Go { sampler: None, every: point(0x20, 0) }), ..Found::default() };
        assert_eq!(Recorded::by(HeapMode::WhileCheap, &[go()]), Recorded::Calls);
        let choice = Choice::of(vec![go()], Recorded::Calls, &mut KnownSites::default());
        assert!(choice.has_go_calls && choice.places.contains_key(&HeapProgram::Sampled));
    }

    #[test]
    fn a_file_whose_places_pass_for_others_is_left_out() {
        let mut known = KnownSites::default();
        let one = Choice::of(vec![with_sampler(vec![point(0x1010, 7)])], Recorded::Samples, &mut known);
        assert_eq!((one.mistakable, one.sites.len()), (0, 1));
        // The same arguments at the same distance from the begin of a page do no harm.
        let same = Choice::of(vec![with_sampler(vec![point(0x5010, 7)])], Recorded::Samples, &mut known);
        assert_eq!((same.mistakable, same.sites.len()), (0, 1));
        let other = vec![with_sampler(vec![point(0x8020, 8), point(0x9010, 8)])];
        let other = Choice::of(other, Recorded::Samples, &mut known);
        assert_eq!((other.mistakable, other.sites.len(), other.kinds.len()), (1, 0, 0));
        let many = (0..=u64::from(MAX_HEAP_SITES)).map(|number| point(0x100 + number, 7)).collect();
        assert_eq!(Choice::of(vec![with_sampler(many)], Recorded::Samples, &mut known).mistakable, 1);
    }
}
