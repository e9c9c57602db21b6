//! Any bytes as ELF file: steps with all registers at many places neither panic nor hang.
#![no_main]

use unwind::full::{Frame, FullUnwinder};

libfuzzer_sys::fuzz_target!(|elf: &[u8]| {
    let Ok(unwinder) = FullUnwinder::new(elf) else { return };
    let Ok(table) = unwind::compile(elf) else { return };
    let registers = std::array::from_fn(|i| 0x7fff_0000_0000 + 64 * i as u64);
    let memory = |address: u64| (address % 3 != 0).then(|| address.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for (number, page) in table.pages.iter().enumerate() {
        for row in table.rows[page.first_row as usize..][..page.count as usize].iter().take(64) {
            let svma = (table.first_page + number as u64) << 16 | u64::from(row.offset);
            let mut frame = Frame::leaf(&registers, svma);
            for _ in 0..4 {
                let Ok(caller) = unwinder.step(&frame, 0, &memory) else { break };
                frame = Frame { pc: svma, ..caller };
            }
        }
    }
});
