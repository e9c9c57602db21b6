//! Targets in programs that a compiler and a linker made.

use std::fs;

use crate::programs::{SOURCE, compiled};
use probes::{Binary, ProbeError, Target};

/// `endbr64; mov $0x12345678,%eax`
const KNOWN: &[u8] = b"\xf3\x0f\x1e\xfa\xb8\x78\x56\x34\x12\x55";

fn locate(binary: &Binary, text: &str) -> Result<probes::Location, ProbeError> {
    binary.locate(&Target::parse(text).unwrap())
}

#[test]
fn functions_are_found_however_the_file_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("pie", &["-pie", "-fPIE", "-Wl,-z,separate-code"][..]),
        ("joined", &["-pie", "-fPIE", "-Wl,-z,noseparate-code"]),
        ("fixed", &["-no-pie", "-fno-pie"]),
        // The address of code has nothing to do with its offset, as lld lays files out.
        ("apart", &["-no-pie", "-fno-pie", "-Wl,-Ttext=0x7654000"]),
        ("stripped", &["-pie", "-fPIE", "-rdynamic", "-s"]),
        ("library", &["-shared", "-fPIC", "-s"]),
    ] {
        let Some(path) = compiled(folder.path(), name, SOURCE, options) else {
            return;
        };
        let bytes = fs::read(&path).unwrap();
        let binary = Binary::open(&path).unwrap();
        let at = |offset: u64| &bytes[offset as usize..];
        let known = locate(&binary, "known").unwrap();
        assert!(at(known.offset).starts_with(KNOWN), "{name}: {known:?}");
        if name == "apart" {
            assert!(known.address > 0x7654000 && known.offset < 0x100000, "{known:?}");
        }
        let placement = binary.place(&known);
        assert_eq!((placement.offset, placement.is_emulated), (known.offset + 9, true), "{name}");
        assert_eq!(placement.address, known.address + 9);
        // Another symbol begins where the probe would go.
        let second = locate(&binary, "second_entry").unwrap();
        assert_eq!(binary.place(&second).offset, second.offset, "{name}");
        assert!(!binary.place(&second).is_emulated);

        let inside = locate(&binary, "known+4").unwrap();
        assert_eq!((inside.offset, binary.place(&inside).offset), (known.offset + 4, known.offset + 4));
        let by_offset = locate(&binary, &format!("{:#x}", known.offset + 4)).unwrap();
        assert_eq!((by_offset.offset, by_offset.address), (inside.offset, inside.address));
        for text in ["known+5".to_owned(), format!("{:#x}", known.offset + 8)] {
            let error = locate(&binary, &text).unwrap_err();
            let ProbeError::InsideInstruction { begin, .. } = error else { panic!("{name} {text}: {error}") };
            assert_eq!(begin, known.offset + 4);
        }
        assert!(matches!(locate(&binary, "known+0x40"), Err(ProbeError::BeyondSymbol { .. })));
        assert!(matches!(locate(&binary, "indirect"), Err(ProbeError::IndirectFunction { .. })), "{name}");
        assert!(matches!(locate(&binary, "0x0"), Err(ProbeError::OutsideCode { .. })) || name == "joined");
        let end = format!("{:#x}", bytes.len());
        assert!(matches!(locate(&binary, &end), Err(ProbeError::OutsideCode { .. })));
        let error = locate(&binary, "knowm").unwrap_err();
        assert!(
            matches!(&error, ProbeError::UnknownSymbol { near, .. } if near == &["known"]),
            "{name}: {error}"
        );
        assert!(error.to_string().contains("similar: known"));
        assert!(
            matches!(locate(&binary, "datum"), Err(ProbeError::UnknownSymbol { .. })),
            "data is no function"
        );
    }
}

#[test]
fn a_separate_debug_file_has_the_names_of_a_stripped_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = compiled(folder.path(), "program", SOURCE, &["-g", "-pie", "-fPIE"]) else {
        return;
    };
    let wanted = locate(&Binary::open(&path).unwrap(), "known").unwrap().offset;
    let debug = folder.path().join("program.debug");
    for options in [
        &["objcopy", "--only-keep-debug", "program", "program.debug"][..],
        &["objcopy", "--strip-all", "--add-gnu-debuglink=program.debug", "program"],
    ] {
        if testkit::run_tool(folder.path(), options.iter().copied()).is_none() {
            return;
        }
    }
    assert_eq!(locate(&Binary::open(&path).unwrap(), "known").unwrap().offset, wanted);
    fs::remove_file(debug).unwrap();
    let error = locate(&Binary::open(&path).unwrap(), "known").unwrap_err();
    assert!(error.to_string().contains("0xOFFSET"), "{error}");
}

#[test]
fn names_of_the_source_are_understood_and_ambiguous_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
asm(".text\n.globl _ZN5outer5innerEi,_ZN5outer5otherEi,_ZN5outer5otherEv\n"
    ".type _ZN5outer5innerEi,@function\n_ZN5outer5innerEi: ret\n.size _ZN5outer5innerEi,1\n"
    ".type _ZN5outer5otherEi,@function\n_ZN5outer5otherEi: ret\n.size _ZN5outer5otherEi,1\n"
    ".type _ZN5outer5otherEv,@function\n_ZN5outer5otherEv: ret\n.size _ZN5outer5otherEv,1\n");
int main(void) { return 0; }"#;
    let Some(path) = compiled(folder.path(), "names", source, &[]) else {
        return;
    };
    let binary = Binary::open(&path).unwrap();
    let inner = locate(&binary, "outer::inner").unwrap();
    assert_eq!(inner.symbol.as_deref(), Some("_ZN5outer5innerEi"));
    assert_eq!(locate(&binary, "outer::inner(int)").unwrap(), inner);
    assert_eq!(locate(&binary, "_ZN5outer5innerEi").unwrap(), inner);
    assert!(matches!(locate(&binary, "outer::inn"), Err(ProbeError::UnknownSymbol { .. })));
    let error = locate(&binary, "outer::other").unwrap_err();
    let ProbeError::Ambiguous { offsets, .. } = &error else { panic!("{error}") };
    assert_eq!(offsets, &[inner.offset + 1, inner.offset + 2]);
    assert_eq!(locate(&binary, "outer::other(int)").unwrap().offset, inner.offset + 1);
}

#[test]
fn usdt_probes_have_their_sites_semaphores_and_arguments() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [("pie", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie", "-Wl,-Ttext=0x7654000"])]
    {
        let Some(path) = compiled(folder.path(), name, SOURCE, options) else {
            return;
        };
        let bytes = fs::read(&path).unwrap();
        let binary = Binary::open(&path).unwrap();
        let names: Vec<_> =
            binary.usdt_probes().into_iter().map(|probe| (probe.name, probe.sites.len())).collect();
        assert_eq!(names, [("start".to_owned(), 1), ("work".to_owned(), 2)]);
        let sites = binary.usdt("app", "work").unwrap();
        assert!(sites.iter().all(|site| bytes[site.offset as usize] == 0x90), "each is a nop");
        let texts: Vec<_> = sites.iter().map(|site| site.arguments.as_str()).collect();
        assert_eq!(texts, ["-4@%edi", "-4@%edi 8@-8(%rsp)"]);
        assert_eq!(sites[0].semaphore, None);
        let counter = sites[1].semaphore.unwrap() as usize;
        assert_eq!(&bytes[counter..counter + 2], 0x4711u16.to_le_bytes());
        let error = binary.usdt("app", "wrk").unwrap_err();
        assert!(error.to_string().contains("app:work"), "{error}");

        // Tools that move a file's sections do not change notes: all addresses move with the base.
        let mut moved = bytes.clone();
        let is_note = |at: &usize| bytes[*at..].starts_with(b"\x03\0\0\0stapsdt\0");
        let notes: Vec<usize> = (0..bytes.len()).filter(is_note).collect();
        assert_eq!(notes.len(), 3);
        for at in notes.iter().flat_map(|note| (0..3).map(move |number| note + 12 + number * 8)) {
            let value = u64::from_le_bytes(moved[at..at + 8].try_into().unwrap());
            if value != 0 {
                moved[at..at + 8].copy_from_slice(&(value - 0x100).to_le_bytes());
            }
        }
        let moved = Binary::of_bytes(&path, moved).unwrap();
        assert_eq!(moved.usdt_probes(), binary.usdt_probes(), "{name}");
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(matches!(Binary::open(&script), Err(ProbeError::NotElf { .. })));
    fs::write(&script, "").unwrap();
    assert!(matches!(Binary::open(&script), Err(ProbeError::NotElf { .. })));
    assert!(matches!(Binary::open(&folder.path().join("absent")), Err(ProbeError::Open { .. })));
    let error = Binary::open("/dev/zero".as_ref()).unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");
}

#[test]
fn places_of_system_libraries_are_on_instructions_near_the_entry() {
    let mut found = 0;
    for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"] {
        let Ok(binary) = Binary::open(path.as_ref()) else { continue };
        for name in ["malloc", "free", "calloc", "realloc", "printf", "qsort", "getenv"] {
            let location = locate(&binary, name).unwrap();
            let place = binary.place(&location);
            assert!(place.offset - location.offset <= 60, "{name}");
            // The entry and the place must be starts of instructions: asking for the place again says so.
            let again = locate(&binary, &format!("{:#x}", place.offset)).unwrap();
            assert_eq!(again.address, place.address, "{name}");
            found += usize::from(place.is_emulated);
        }
        assert!(found >= 4, "most functions have an emulated instruction near their entry: {found}");
        return;
    }
    testkit::skipped("no libc of glibc");
}

#[test]
fn an_old_version_of_a_function_is_named_by_its_version() {
    const VERSIONS: &str = r#"
asm(".symver old, f@V1");
asm(".symver new, f@@V2");
int old(void) { return 0x1234; }
int new(void) { return 0x5678; }
"#;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("versions");
    fs::write(&script, "V1 { global: f; local: *; };\nV2 { global: f; } V1;\n").unwrap();
    let script = format!("-Wl,--version-script={}", script.display());
    // With .symtab the versions are in the names, without it in a section of their own.
    for (name, more) in [("symtab", "-g0"), ("dynsym", "-s")] {
        let options = ["-shared", "-fPIC", "-fno-toplevel-reorder", &script, more];
        let Some(path) = compiled(folder.path(), name, VERSIONS, &options) else { return };
        let (bytes, binary) = (fs::read(&path).unwrap(), Binary::open(&path).unwrap());
        let value = |text: &str| {
            let code = &bytes[locate(&binary, text).unwrap().offset as usize..][..32];
            code.windows(4).find_map(|four| match four {
                [0x34, 0x12, 0, 0] => Some("old"),
                [0x78, 0x56, 0, 0] => Some("new"),
                _ => None,
            })
        };
        // On aarch64 the constant is a part of an instruction.
        if cfg!(target_arch = "x86_64") {
            let found = ["f", "f@V1", "f@V2", "f@@V2"].map(value);
            assert_eq!(found, [Some("new"), Some("old"), Some("new"), Some("new")], "{name}");
        }
        assert_ne!(locate(&binary, "f@V1").unwrap().offset, locate(&binary, "f").unwrap().offset, "{name}");
        let error = locate(&binary, "f@V3").unwrap_err();
        assert!(matches!(error, ProbeError::UnknownSymbol { .. }), "{error}");
    }
}
