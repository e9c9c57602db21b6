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

/// A program with debug information, and where that begins in the file.
fn described() -> Option<&'static (Vec<u8>, usize)> {
    const SOURCE: &str = "struct part { struct { int a : 3; }; struct part *next; union { long b; char c[4]; }; } part;\n\
        __attribute__((noinline)) long known(int n, struct part *p, const char *s) { return n + p->next->b + s[0]; }\n\
        int main(int n, char **s) { return known(n, &part, s[0]); }";
    static DESCRIBED: OnceLock<Option<(Vec<u8>, usize)>> = OnceLock::new();
    let described = || {
        let folder = tempfile::tempdir().unwrap();
        let program = crate::programs::compiled(folder.path(), "described", SOURCE, &["-g"])?;
        let file = std::fs::read(&program).unwrap();
        let stripped = program.with_extension("stripped");
        let mut strip = std::process::Command::new(testkit::needed("strip")?);
        let strip = strip.args(["-g", "-o"]).args([&stripped, &program]).status();
        assert!(strip.unwrap().success());
        // The sections of debug information are behind all others but symbols and their names.
        let begin = std::fs::metadata(stripped).unwrap().len() as usize / 2;
        Some((file, begin))
    };
    DESCRIBED.get_or_init(described).as_ref()
}

/// The parameters that can be read.
fn parameters(file: Vec<u8>) -> usize {
    let Ok(binary) = Binary::of_bytes(Path::new("described"), file) else { return 0 };
    let target = Target::parse("known").unwrap();
    let Ok(location) = binary.locate(&target) else { return 0 };
    let place = binary.place(&location);
    let texts = ["n", "p->a", "p->next->b", "p->next->next->c", "s", "p->nothing"];
    texts.iter().filter(|text| binary.parameter(&target, &location, &place, text).is_ok()).count()
}

#[test]
fn parameters_are_there_before_the_damage() {
    let Some((file, _)) = described() else { return };
    // Signed bits are refused.
    assert_eq!(parameters(file.clone()), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damaged_debug_information_gives_errors(
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..60),
    ) {
        let Some((file, begin)) = described() else { return Ok(()) };
        let mut file = file.clone();
        let len = file.len() - begin;
        for (at, byte) in damage {
            file[begin + at % len] = byte;
        }
        let _any_number = parameters(file);
    }
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
