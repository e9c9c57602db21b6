//! Any bytes as list of the kernel's symbols, and as notes of the kernel: no panic, bounded memory.
#![no_main]

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use symbols::{KernelNames, KernelText, Options, Symbolizer};

#[path = "../allocations.rs"]
mod allocations;
#[path = "../memory_file.rs"]
mod memory_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = memory_file::new();
    file.write_all(bytes).expect("memory takes it");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let marks = KernelText::read_start(&path);
    let options = Options {
        kallsyms: path.clone(),
        kernel_notes: path,
        kernel_images: Vec::new(),
        ..Options::default()
    };
    allocations::bounded(64 << 20, || {
        let mut symbolizer = Symbolizer::new(options);
        let addresses: Vec<u64> = (0..64).chain((0..64).map(|at| u64::MAX - 64 * at)).collect();
        let lines = symbolizer.kernel(&addresses);
        assert_eq!(lines.len(), addresses.len());
        if let KernelNames::Known(count) = symbolizer.kernel_names() {
            assert!(count <= bytes.len());
        }
        let _ = (marks, symbolizer.kernel_text());
    });
});
