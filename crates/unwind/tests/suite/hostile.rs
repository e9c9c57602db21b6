//! Damaged files: truncated at every length, with flipped bits and replaced bytes. Nothing panics, and every resulting
//! table is valid.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use proptest::prelude::*;

use crate::seeds;

/// Small programs: `.eh_frame`, compressed `.debug_frame`, Go tables of all versions, hand-written assembly, aarch64.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    seeds::read(&[
        "eh_frame",
        "assembly",
        "debug_frame_zlib",
        "debug_frame_zstd",
        "shared",
        "go1_16",
        "go1_18",
        "go1_20",
        "aarch64",
    ])
});

fn compile_any(elf: &[u8]) {
    if let Ok(table) = unwind::compile(elf) {
        table.validate().unwrap();
        assert_eq!(unwind::decode(&unwind::encode(&table)), Ok(table));
    }
    if let Ok(mut index) = unwind::FunctionIndex::read(elf, &|| {}) {
        let addresses: Vec<u64> = (0..0x3000).step_by(97).chain((0x40_0000..0x40_3000).step_by(97)).collect();
        assert_eq!(index.starts(elf, &addresses, &|| {}).len(), addresses.len());
    }
}

#[test]
fn seeds_are_understood() {
    for (i, seed) in SEEDS.iter().enumerate() {
        let table = unwind::compile(seed).unwrap();
        let stats = table.stats;
        let functions = stats.eh_frame_functions + stats.debug_frame_functions + stats.go_functions;
        assert!(functions >= 2 && stats.bad_fdes == 0, "seed {i}: {stats:?}");
    }
}

/// An executable with one segment, mapped at its position in the file.
fn executable(entry: u64, content: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let len = HEADERS + content.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    [HEADERS + entry, 64, 0].iter().for_each(|word: &u64| elf.extend(word.to_le_bytes()));
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    [0, 0, 0, len, len, 4096].iter().for_each(|word: &u64| elf.extend(word.to_le_bytes()));
    elf.extend(content);
    elf
}

/// `blocks` of code. Each can jump to any other through a table.
fn everything_jumps_everywhere(blocks: usize) -> Vec<u8> {
    const START: usize = 64 + 56 + 8;
    let table = START + blocks * 16;
    // The entry: a call of the first block, and hlt.
    let mut content = vec![0xe8, 3, 0, 0, 0, 0xf4, 0x90, 0x90];
    for _ in 0..blocks {
        // cmp $blocks - 1,%eax; ja to the ret; jmp *table(,%rax,8); ret; nop
        content.push(0x3d);
        content.extend((blocks as u32 - 1).to_le_bytes());
        content.extend([0x77, 7, 0xff, 0x24, 0xc5]);
        content.extend((table as u32).to_le_bytes());
        content.extend([0xc3, 0x90]);
    }
    (0..blocks).for_each(|block| content.extend(((START + block * 16) as u64).to_le_bytes()));
    executable(0, &content)
}

#[test]
fn branches_of_code_without_information_are_limited() {
    let few = unwind::compile(&everything_jumps_everywhere(64)).unwrap();
    assert_eq!((few.stats.analysed_functions, few.stats.refused_functions), (1, 0));
    let many = unwind::compile(&everything_jumps_everywhere(4096)).unwrap();
    assert_eq!((many.stats.analysed_functions, many.stats.refused_functions), (0, 1));
}

#[test]
fn truncated_anywhere() {
    for seed in SEEDS.iter() {
        (0..seed.len())
            .step_by(if seed.len() > 1000 { 7 } else { 1 })
            .for_each(|len| compile_any(&seed[..len]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged(seed in 0..SEEDS.len(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut elf = SEEDS[seed].to_vec();
        for (at, byte) in damage {
            let at = at.index(elf.len());
            elf[at] = byte;
        }
        compile_any(&elf);
    }

    #[test]
    fn decoding_damaged_tables(seed in 0..SEEDS.len(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..64usize) {
        let mut bytes = unwind::encode(&unwind::compile(&SEEDS[seed]).unwrap());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        if let Ok(table) = unwind::decode(&bytes) {
            prop_assert_eq!(table.validate(), Ok(()));
        }
    }
}
