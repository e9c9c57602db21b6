//! Writers of profiles: pprof, folded stacks, SVG flame graph.
//!
//! In: [`pprof`] (both directions), [`folded`], [`flamegraph`]. Guaranteed: pure (model in, bytes out, no files),
//! and deterministic: equal profiles give equal bytes. Not here: making profiles, names for addresses, and where
//! the bytes go.
#![forbid(unsafe_code)]

pub mod flamegraph;
pub mod folded;
pub mod pprof;
