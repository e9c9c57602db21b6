//! Small files of the fuzzers' corpus.
//!
//! They are read when a test runs: inside of this program, what looks like Go's tables in them would count as its own.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// The files of those names.
pub fn read(names: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/compile");
    names.iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect()
}
