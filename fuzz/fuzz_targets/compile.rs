//! Any bytes as ELF file: no panic, bounded work, and what comes out is a valid table that encodes and decodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|elf: &[u8]| {
    let Ok(table) = unwind::compile(elf) else { return };
    table.validate().expect("a compiled table is valid");
    assert_eq!(unwind::decode(&unwind::encode(&table)).as_ref(), Ok(&table));
    for (number, page) in table.pages.iter().enumerate() {
        for row in &table.rows[page.first_row as usize..][..page.count as usize] {
            let svma = (table.first_page + number as u64) << 16 | u64::from(row.offset);
            assert_eq!(table.lookup(svma).is_some(), row.rule != 0);
        }
    }
});
