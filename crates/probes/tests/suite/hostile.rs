//! Damaged files do no harm.

use std::path::Path;
use std::sync::OnceLock;

use probes::{Binary, Target};
use proptest::prelude::*;

fn program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        match crate::programs::compiled(folder.path(), "program", crate::programs::SOURCE, &["-rdynamic"]) {
            Some(path) => std::fs::read(path).unwrap(),
            None => std::fs::read("/bin/sh").unwrap(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_damaged_file_gives_errors_and_places_in_code(
        damage in prop::collection::vec((any::<usize>(), any::<u8>(), 0u8..3), 1..40),
        cut in 0usize..4096,
        offset in any::<u16>(),
    ) {
        let mut file = program().to_vec();
        let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        let notes = file.windows(8).position(|part| part == b"stapsdt\0").unwrap_or(0);
        for (at, byte, place) in damage {
            let (start, len) = match place { 0 => (0, 1024), 1 => (table, file.len() - table), _ => (notes, 512.min(file.len() - notes)) };
            file[start + at % len] = byte;
        }
        if cut < 64 {
            file.truncate(cut * 300);
        }
        let len = file.len() as u64;
        let Ok(binary) = Binary::of_bytes(Path::new("damaged"), file) else { return Ok(()) };
        let offset = format!("{offset:#x}");
        for text in ["known", "known+4", "main", "second_entry", "nothing::of::this", &offset] {
            if let Ok(location) = binary.locate(&Target::parse(text).unwrap()) {
                let place = binary.place(&location);
                prop_assert!(location.offset < len && place.offset < len);
                prop_assert!(place.offset >= location.offset && place.offset - location.offset < 90);
            }
        }
        for probe in binary.usdt_probes() {
            prop_assert!(probe.sites.iter().all(|site| site.offset < len && site.semaphore.is_none_or(|at| at < len)));
        }
    }
}
