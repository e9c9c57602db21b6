//! Compares the analysis of code with call frame information: for system libraries with hidden frame sections, the
//! rules from the code must agree with the frame sections.
//!
//! C only: the landing pads of C++ are reachable only by frame information.
#![allow(clippy::unwrap_used)]

use unwind::Rule;
use unwind::Table;
use unwind::abi;

use crate::oracle_gimli::unmarked;

/// The rule of a function's first instruction.
const ENTRY: Rule = Rule { cfa: abi::cfa::SP, cfa_off: 8, ra_off: -8, ..Rule::NONE };

/// Renames the sections and removes the program header of frame information.
fn hide_frames(elf: &mut [u8]) {
    let hide = |elf: &mut [u8], name: &[u8]| {
        while let Some(at) = elf.windows(name.len()).position(|window| window == name) {
            elf[at + 1] = b'x';
        }
    };
    hide(elf, b".eh_frame\0");
    hide(elf, b".eh_frame_hdr\0");
    let (phoff, phnum) = (u64::from_le_bytes(elf[32..40].try_into().unwrap()) as usize, elf[56] as usize);
    for i in 0..phnum {
        let header = phoff + i * 56;
        if elf[header..header + 4] == 0x6474_e550u32.to_le_bytes() {
            elf[header..header + 4].fill(0);
        }
    }
}

#[derive(Debug, Default)]
struct Agreement {
    equal: usize,
    /// Both are plausible: one uses sp, the other rbp, or rbp is both saved and unchanged.
    other_form: usize,
    /// Stack roots that only the code shows.
    roots: usize,
    /// Assembly whose frame information ignores its pushes (GMP's in glibc).
    pushes_ignored: usize,
    wrong: Vec<(u64, Rule, Rule)>,
}

/// The linker's rule for all stubs of lazy binding, at one address.
fn at_stub(rule: &Rule, svma: u64) -> Option<Rule> {
    let pushed = i32::from(svma & 15 >= u64::from(rule.cfa_add.unsigned_abs())) * 8;
    (rule.cfa == abi::cfa::PLT).then_some(Rule { cfa_off: 8 + pushed, ..ENTRY })
}

/// Whether the instruction is `ret` or `repz ret`.
fn returns_at(elf: &[u8], svma: u64) -> bool {
    use object::Object;
    use object::ObjectSegment;
    let file = object::File::parse(elf).unwrap();
    file.segments().any(|s| matches!(s.data_range(svma, 2), Ok(Some([0xc3, _] | [0xf3, 0xc3]))))
}

/// Compares at every row of both tables, where both have a rule.
fn compare(elf: &[u8], from_cfi: &Table, from_code: &Table) -> Agreement {
    let mut agreement = Agreement::default();
    let mut addresses = Vec::new();
    for table in [from_cfi, from_code] {
        for (number, page) in table.pages.iter().enumerate() {
            for row in &table.rows[page.first_row as usize..][..page.count as usize] {
                addresses.push((table.first_page + number as u64) << 16 | u64::from(row.offset));
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    for svma in addresses {
        let (Some(cfi), Some(code)) = (from_cfi.lookup(svma), from_code.lookup(svma)) else { continue };
        // The padding before a function has a rule of its own.
        if cfi.cfa == abi::cfa::UNSUPPORTED || *cfi == Rule::START {
            continue;
        }
        let (cfi, code) = (&unmarked(cfi), &unmarked(code));
        let simple = |rule: &Rule| matches!(rule.cfa, abi::cfa::SP | abi::cfa::FP) && rule.ra == abi::ra::CFA;
        // Compilers do not describe the restored rbp after its slot was popped.
        let popped = cfi.fp == abi::fp::CFA && cfi.fp_off < -cfi.cfa_off && cfi.cfa == abi::cfa::SP;
        if cfi == code
            || at_stub(cfi, svma) == Some(*code)
            || (popped && *code == Rule { fp: abi::fp::SAME, fp_off: 0, ..*cfi })
        {
            agreement.equal += 1;
        } else if code.cfa_off == 8 && code.cfa == abi::cfa::SP && returns_at(elf, svma) {
            // At a return the CFA is sp + 8, even if the frame information of assembly differs.
            agreement.other_form += 1;
        } else if *cfi == ENTRY && code.cfa == abi::cfa::SP && (16..=56).contains(&code.cfa_off) {
            agreement.pushes_ignored += 1;
        } else if *code == Rule::ROOT {
            agreement.roots += 1;
        } else if (simple(cfi) && simple(code) && cfi.cfa == code.cfa && cfi.cfa_off != code.cfa_off)
            || (cfi.fp == abi::fp::CFA && code.fp == abi::fp::CFA && cfi.fp_off != code.fp_off)
            || (cfi.fp == abi::fp::CFA && code.fp == abi::fp::SAME && !popped)
        {
            agreement.wrong.push((svma, *cfi, *code));
        } else {
            agreement.other_form += 1;
        }
    }
    agreement
}

fn check(path: &str) -> Option<(Agreement, Table)> {
    let mut elf = std::fs::read(path).ok()?;
    let from_cfi = unwind::compile(&elf).unwrap();
    hide_frames(&mut elf);
    let from_code = unwind::compile(&elf).unwrap();
    assert_eq!(from_code.stats.eh_frame_functions, 0, "{path}");
    let agreement = compare(&elf, &from_cfi, &from_code);
    eprintln!(
        "{path}: {} equal, {} other form, {} roots, {} wrong; {:?}",
        agreement.equal,
        agreement.other_form,
        agreement.roots,
        agreement.wrong.len(),
        from_code.stats
    );
    for (svma, cfi, code) in agreement.wrong.iter().take(10) {
        eprintln!("  {svma:#x}\n    cfi  {cfi:?}\n    code {code:?}");
    }
    Some((agreement, from_code))
}

#[test]
fn adhoc() {
    for path in std::env::var("ORACLE").unwrap_or_default().split(' ').filter(|p| !p.is_empty()) {
        let begun = std::time::Instant::now();
        check(path);
        eprintln!("   {:?}", begun.elapsed());
    }
}

#[test]
fn code_agrees_with_frame_information() {
    for (path, least) in [
        ("/lib/x86_64-linux-gnu/libc.so.6", 5000),
        ("/lib64/ld-linux-x86-64.so.2", 500),
        ("/lib/x86_64-linux-gnu/libm.so.6", 1000),
        ("libcrypto", 5000),
        ("/bin/bash", 10_000),
        ("make", 3000),
        ("/sbin/ldconfig", 7000),
    ] {
        let file = if path.starts_with('/') { Some(path.into()) } else { testkit::needed(path) };
        let Some(file) = file else { continue };
        let (agreement, _) = check(file.to_str().unwrap()).unwrap();
        assert!(agreement.equal > least, "{path}: {}", agreement.equal);
        assert!(agreement.pushes_ignored <= 16, "{path}: {}", agreement.pushes_ignored);
        assert!(agreement.wrong.is_empty(), "{path}: {}", agreement.wrong.len());
        assert!(agreement.other_form * 20 < agreement.equal, "{path}: {}", agreement.other_form);
    }
}

/// A program at a fixed address, without symbols, whose functions follow each other without padding.
#[test]
fn packed_static_program() {
    let Some(path) = crate::programs::build("oracle-packed", "gcc", &["-Os", "-static", "-s"]) else {
        return;
    };
    let (agreement, table) = check(path.to_str().unwrap()).unwrap();
    assert!(agreement.equal > 5000 && table.stats.analysed_functions > 500, "{agreement:?}");
    assert!(agreement.wrong.is_empty(), "{:?}", agreement.wrong);
    assert!(table.stats.refused_functions * 3 < table.stats.analysed_functions, "{:?}", table.stats);
}

/// Functions that never return, memory of the stack in loops and tables of jumps that are loaded early, in a static program
/// whose C library has frame sections and which itself has none. The same program with frame sections has the same code.
#[test]
fn program_of_functions_that_never_return() {
    use object::Object;
    use object::ObjectSymbol;
    const SOURCE: &str = include_str!("../programs/applets.c");
    for level in ["-Os", "-O1", "-O2"] {
        let build = |kind: &str, options: &[&str]| {
            let name = format!("oracle-applets{level}-{kind}");
            crate::programs::build_source(SOURCE, &name, "gcc", &[&["-static", level], options].concat())
        };
        let without = ["-s", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
        let (Some(described), Some(bare)) = (build("described", &[]), build("bare", &without)) else {
            return;
        };
        let [described, bare] = [described, bare].map(|path| std::fs::read(path).unwrap());
        let [from_cfi, from_code] = [&described, &bare].map(|elf| unwind::compile(elf).unwrap());
        assert!(from_cfi.stats.eh_frame_functions > from_code.stats.eh_frame_functions + 7, "{level}");
        let agreement = compare(&bare, &from_cfi, &from_code);
        assert!(agreement.wrong.is_empty(), "{level}: {:?}", agreement.wrong);
        let file = object::File::parse(&*described).unwrap();
        // Behind its call of an applet nothing proves that its code goes on.
        let main = file.symbols().find(|symbol| symbol.name() == Ok("main")).unwrap();
        assert_eq!(from_code.lookup(main.address()), Some(&ENTRY), "{level}");
        for name in
            ["finish", "die", "one", "other", "applet_pair", "applet_loop", "applet_alloca", "applet_switch"]
        {
            let symbols: Vec<_> =
                file.symbols().filter(|symbol| symbol.name() == Ok(name) && symbol.size() > 0).collect();
            assert!(!symbols.is_empty(), "{level}: {name} is missing");
            for address in symbols.iter().flat_map(|s| s.address()..s.address() + s.size()) {
                // Padding lies before the targets of jumps.
                let aligned = [address.next_multiple_of(8), address.next_multiple_of(16)];
                let has_row = |address: &u64| from_code.lookup(*address).is_some();
                let is_padding = aligned.iter().any(has_row);
                assert!(has_row(&address) || is_padding, "{level}: no row for {name} at {address:#x}");
            }
        }
    }
}
