//! Any bytes as a file of what was learned of another file: no panic, bounded memory; what is accepted can be written and read again.
#![no_main]

use std::sync::Arc;

#[path = "../allocations.rs"]
mod allocations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let addresses: Vec<u64> = (0..64).chain((0..64).map(|at| 0x1000 + 16 * at)).chain([u64::MAX]).collect();
    let parts = [symbols::SavedNames::VERSION, bytes].concat();
    let bytes: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new([&parts[..], &[0; 8]].concat());
    allocations::bounded(256 << 20, || symbols::saved_answers(&bytes, &addresses));
});
