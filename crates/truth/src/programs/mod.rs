//! The known-answer programs: how each is built and started, and the call chains that it can show.
//!
//! The sources are in `truth/programs`; each begins with its true answer in words. The patterns here are the same
//! answers in the language of [`crate::pattern`].

mod code;
mod data;
mod go;
mod heap;
mod languages;
mod lifecycle;
mod program;
mod recursion;
mod scheduling;
mod unwound;

pub use heap::SampledHeap;
pub(crate) use program::c;
pub use program::{Launch, Program, sources};
pub use recursion::{recursion_chain, ring};
pub use scheduling::Scheduling;
pub use unwound::{Linked, Unwound};

/// Every program, the full matrix.
#[must_use]
pub fn all() -> Vec<Program> {
    [
        recursion::programs(),
        languages::programs(),
        go::programs(),
        code::programs(),
        data::programs(),
        lifecycle::programs(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn every_program_is_well_formed() {
        let programs = all();
        let names: HashSet<_> = programs.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), programs.len(), "names are unique");
        for program in &programs {
            assert!(!program.chains.is_empty() && !program.builds.is_empty(), "{}", program.name);
            for chain in &program.chains {
                Pattern::read(chain).unwrap_or_else(|e| panic!("{}: {e}", program.name));
            }
            for build in &program.builds {
                assert!(sources().join(build.source).is_file(), "{}: {}", program.name, build.source);
            }
        }
    }
}
