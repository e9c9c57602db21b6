//! Go programs: compares the rows from `.gopclntab` with the `.debug_frame` of Go's linker, read by gimli.
//!
//! Needs a Go toolchain to build the program; without one the test is skipped.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use gimli::CfaRule;
use gimli::DebugFrame;
use gimli::LittleEndian;
use gimli::UnwindContext;
use gimli::UnwindSection;
use object::Object;
use object::ObjectSection;
use object::ObjectSymbol;
use unwind::Rule;
use unwind::Table;
use unwind::abi;

const PROGRAM: &str = r#"package main

import ("fmt"; "os"; "os/signal"; "sort"; "time")

//go:noinline
func grow(n int, b []byte) int {
	var x [300]byte
	if n == 0 { return len(b) }
	x[n%200] = 1
	return grow(n-1, x[:]) + int(x[3])
}

func main() {
	signal.Notify(make(chan os.Signal, 1))
	s := []int{3, 1, 2}
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	fmt.Println(grow(100, nil), s, time.Now())
}
"#;

fn build(folder: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let go = testkit::needed("go")?;
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("main.go"), PROGRAM).unwrap();
    let output = folder.join("program");
    let status = Command::new(go)
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .args(["build", "-o"])
        .arg(&output)
        .args(arguments)
        .arg("main.go")
        .status()
        .unwrap();
    assert!(status.success());
    Some(output)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn compare(elf: &[u8]) -> usize {
    let table = unwind::compile(elf).unwrap();
    table.validate().unwrap();
    assert_eq!(table.stats.bad_fdes, 0);
    let file = object::File::parse(elf).unwrap();
    let data = file.section_by_name(".debug_frame").unwrap().uncompressed_data().unwrap();
    let mut frames = DebugFrame::new(&data, LittleEndian);
    frames.set_address_size(8);
    let names: std::collections::HashMap<u64, &str> =
        file.symbols().filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?))).collect();
    let bases = gimli::BaseAddresses::default();
    let mut context = UnwindContext::new();
    let mut entries = frames.entries(&bases);
    let (mut compared, mut special) = (0, std::collections::BTreeSet::new());
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(DebugFrame::cie_from_offset).unwrap();
        let name = names.get(&fde.initial_address()).copied().unwrap_or_default();
        let mut rows = fde.rows(&frames, &bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            let (start, end) = (row.start_address(), row.end_address().min(fde.end_address()));
            let CfaRule::RegisterAndOffset { offset, .. } = *row.cfa() else { panic!("{name}") };
            if start >= end {
                continue;
            }
            let rule = table.lookup(start).copied().unwrap_or_default();
            let ordinary = Rule { fp: 0, fp_off: 0, flags: 0, ..rule };
            let expected = Rule { cfa: abi::cfa::SP, cfa_off: offset as i32, ra_off: -8, ..Rule::default() };
            if ordinary == expected {
                compared += 1;
            } else {
                special.insert(name);
            }
        }
    }
    // Roots, stack switches, the signal trampoline, and a popped return address: few functions of the runtime, in
    // assembly.
    for name in &special {
        let known = [
            "goexit",
            "mstart",
            "rt0",
            "systemstack",
            "mcall",
            "morestack",
            "asmcgocall",
            "clone",
            "gogo",
            "callCgo",
            "nanotime1",
            "sigfwd",
            "CrashStack",
            "vgetrandom1",
            "time.now",
            "sigreturn",
            "rawVforkSyscall",
        ];
        assert!(known.iter().any(|part| name.contains(part)), "{name}");
    }
    assert!(special.contains("runtime.goexit.abi0"), "{special:?}");
    // Handlers return to the trampoline's first byte, and return addresses are looked up one byte before.
    let trampoline =
        file.symbols().find(|symbol| symbol.name().is_ok_and(|name| name.contains("sigreturn__sigaction")));
    let trampoline = trampoline.unwrap().address();
    for address in [trampoline - 1, trampoline, trampoline + 8] {
        assert_eq!(table.lookup(address).unwrap().flags, abi::SIGNAL, "{address:#x}");
    }
    compared
}

/// Without symbols the rows are the same.
fn same(one: &Table, other: &Table) {
    assert_eq!((one.first_page, one.pages.len()), (other.first_page, other.pages.len()));
    for (number, page) in one.pages.iter().enumerate() {
        for row in &one.rows[page.first_row as usize..][..page.count as usize] {
            let svma = (one.first_page + number as u64) << 16 | u64::from(row.offset);
            assert_eq!(one.lookup(svma), other.lookup(svma), "{svma:#x}");
        }
    }
}

#[test]
fn rows_equal_the_linkers() {
    for (name, arguments) in [
        ("go-exe", &["-ldflags=-compressdwarf=false"][..]),
        ("go-pie", &["-buildmode=pie", "-ldflags=-compressdwarf=false"][..]),
    ] {
        let Some(path) = build(&folder(name), arguments) else { return };
        let elf = std::fs::read(path).unwrap();
        let compared = compare(&elf);
        assert!(compared > 5000, "{compared}");
    }
}

#[test]
fn stripped_programs_have_the_same_rows() {
    let Some(path) = build(&folder("go-full"), &[]) else { return };
    let full = unwind::compile(&std::fs::read(path).unwrap()).unwrap();
    let path = build(&folder("go-stripped"), &["-ldflags=-s -w"]).unwrap();
    let mut elf = std::fs::read(path).unwrap();
    let stripped = unwind::compile(&elf).unwrap();
    assert_eq!(stripped.stats.debug_frame_functions, 0);
    assert_eq!(stripped.stats.go_functions, full.stats.go_functions);
    // Section headers are not needed either.
    elf[40..48].fill(0);
    elf[58..64].fill(0);
    same(&stripped, &unwind::compile(&elf).unwrap());
}
