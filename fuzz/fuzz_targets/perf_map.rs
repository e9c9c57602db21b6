//! Reads any bytes as a perf map, in two pieces, with mappings of code that become known later. There is no panic, memory is in proportion to
//! the bytes, few of them are read again, and an entry covers its address.
#![no_main]

use std::io::Write as _;
use std::sync::Arc;

use profile::Avma;
use symbols::{CodeRanges, PerfMap};

#[path = "../allocations.rs"]
mod allocations;
#[path = "../memory_file.rs"]
mod memory_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = memory_file::new();
    let (begin, end) = bytes.split_at(bytes.len() / 2);
    file.write_all(begin).expect("memory takes it");
    let again = file.try_clone().expect("a descriptor");
    let mut map = allocations::bounded(64 << 20, || PerfMap::of_file(again));
    check(&map);
    file.write_all(end).expect("memory takes it");
    allocations::bounded(64 << 20, || map.refresh());
    check(&map);
    map.read_anew();
    check(&map);
    let mut code = CodeRanges::default();
    for start in [0, 0x1000, 0x1200, 0x20] {
        code.add(Avma(start)..Avma(start + 0x180));
        map.within(Arc::new(code.clone()));
        check(&map);
        map.refresh();
        check(&map);
        // Nothing new is known.
        let read = map.bytes_read();
        (0..3).for_each(|_| _ = map.refresh());
        assert_eq!(map.bytes_read(), read);
    }
    assert!(map.malformed_lines() <= 2 * bytes.len() as u64 + 2);
});

fn check(map: &PerfMap) {
    for address in (0..64).chain((0..64).map(|at| 0x1000 + 16 * at)).chain([1 << 32, u64::MAX - 1, u64::MAX])
    {
        if let Some(entry) = map.lookup(Avma(address)) {
            assert!(entry.start.0 <= address && address - entry.start.0 < entry.size);
        }
    }
}
