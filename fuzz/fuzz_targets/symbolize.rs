//! Any bytes as ELF file: naming its addresses from symbol tables, PLT stubs and the Go table neither panics nor hangs.
#![no_main]

use profile::Svma;
use symbols::{ObjectFile, ObjectSource, Options, Symbolizer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut symbolizer = Symbolizer::new(Options { debug_dirs: Vec::new(), ..Options::default() });
    let file = ObjectFile {
        source: ObjectSource::Bytes(bytes.into()),
        display_path: "/fuzzed".into(),
        root: None,
        build_id: None,
    };
    let addresses: Vec<Svma> = (0..64).map(|at| Svma(0x40_0000 + at * 16)).chain((0..64).map(Svma)).collect();
    let names = symbolizer.object(&file, &addresses);
    assert_eq!(names.len(), addresses.len());
    assert_eq!(symbolizer.function_starts(&file, &addresses).len(), addresses.len());
});
