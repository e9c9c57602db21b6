//! Any bytes as jitdump, read in two pieces: no panic, memory in proportion to what was read, nothing is read twice.
#![no_main]

use profile::Avma;
use symbols::JitCode;

#[path = "../allocations.rs"]
mod allocations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut code = JitCode::default();
    let mut read = |size: usize| {
        let file = &bytes[..size];
        code.read(size as u64, |buffer, at| {
            let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or(&[]);
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    };
    allocations::bounded(64 << 20, || {
        let _ = read(bytes.len() / 2);
        let _ = read(bytes.len());
    });
    assert!(code.position() <= (bytes.len() as u64).max(1 << 32));
    for address in (0..64).chain((0..64).map(|at| 0x1000 + 16 * at)) {
        for at in [0, 10, u64::MAX] {
            let _ = code.lookup(Avma(address), at);
        }
    }
});
