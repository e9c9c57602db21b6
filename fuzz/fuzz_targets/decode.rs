//! Any bytes as encoded table: no panic, and what is accepted is valid and encodes to the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(table) = unwind::decode(bytes) else { return };
    table.validate().expect("a decoded table is valid");
    assert_eq!(unwind::encode(&table), bytes);
});
