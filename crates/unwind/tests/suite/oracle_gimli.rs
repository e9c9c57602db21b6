//! Compares every row of system libraries with gimli's evaluation of the same frame section.
#![allow(clippy::unwrap_used)]

use gimli::AArch64;
use gimli::BaseAddresses;
use gimli::CfaRule;
use gimli::EhFrame;
use gimli::LittleEndian;
use gimli::RegisterRule;
use gimli::UnwindContext;
use gimli::UnwindSection;
use gimli::X86_64;
use object::Object;
use object::ObjectSection;
use unwind::Rule;
use unwind::Table;
use unwind::abi;

/// Stack pointer, frame pointer and return address of a machine.
struct Machine {
    sp: gimli::Register,
    fp: gimli::Register,
    ra: gimli::Register,
    vendor: gimli::Vendor,
}

const OF_X86_64: Machine =
    Machine { sp: X86_64::RSP, fp: X86_64::RBP, ra: X86_64::RA, vendor: gimli::Vendor::Default };
const OF_AARCH64: Machine =
    Machine { sp: AArch64::SP, fp: AArch64::X29, ra: AArch64::X30, vendor: gimli::Vendor::AArch64 };

/// The expected rule for gimli's row; `None` for expressions, which are compared elsewhere.
fn expected(row: &gimli::UnwindTableRow<usize>, signal: bool, machine: &Machine) -> Option<Rule> {
    let mut ra = row.register(machine.ra);
    if ra == Some(RegisterRule::Undefined) {
        return Some(Rule::ROOT);
    }
    if machine.ra == AArch64::X30 && matches!(ra, None | Some(RegisterRule::SameValue)) {
        ra = Some(RegisterRule::Register(AArch64::X30));
    }
    let mut rule = Rule::default();
    match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            (rule.cfa, rule.flags) = match register {
                _ if register == machine.sp => (abi::cfa::SP, 0),
                _ if register == machine.fp => (abi::cfa::FP, 0),
                other => (abi::cfa::REG, other.0 as u8),
            };
            rule.cfa_off = i32::try_from(offset).ok()?;
        }
        CfaRule::Expression(_) => return None,
    }
    match ra {
        // As in longjmp: its CFA is that of the buffer.
        Some(RegisterRule::Offset(0..)) if machine.ra == AArch64::X30 => return Some(Rule::UNSUPPORTED),
        // As in setcontext: the caller's stack pointer is not the CFA.
        Some(_) if matches!(row.register(machine.sp), Some(RegisterRule::Offset(_))) => {
            return Some(Rule::UNSUPPORTED);
        }
        Some(RegisterRule::Offset(off)) => match (i16::try_from(off), rule.cfa) {
            (Ok(off), _) => rule.ra_off = off,
            // At the low end of a large frame, relative to the register of the CFA.
            (Err(_), abi::cfa::SP) => {
                (rule.ra, rule.ra_off) = (abi::ra::SP, i16::try_from(off + i64::from(rule.cfa_off)).ok()?);
            }
            (Err(_), abi::cfa::FP) => {
                (rule.ra, rule.ra_off) = (abi::ra::FP, i16::try_from(off + i64::from(rule.cfa_off)).ok()?);
            }
            _ => return Some(Rule::UNSUPPORTED),
        },
        // The caller's stack pointer is the CFA only if the CFA is an offset from the own stack pointer.
        Some(RegisterRule::Register(register)) if rule.cfa == abi::cfa::SP => {
            (rule.ra, rule.ra_off) = (abi::ra::REG, register.0 as i16);
        }
        None | Some(RegisterRule::Register(_) | RegisterRule::ValOffset(_)) => {
            return Some(Rule::UNSUPPORTED);
        }
        Some(_) => return None,
    }
    match row.register(machine.fp) {
        None | Some(RegisterRule::SameValue) => {}
        Some(RegisterRule::Offset(off)) => {
            (rule.fp, rule.fp_off) = (abi::fp::CFA, i32::try_from(off).ok()?);
        }
        Some(RegisterRule::Expression(_)) => return None,
        Some(_) => rule.fp = abi::fp::UNDEFINED,
    }
    if signal {
        rule.flags |= abi::SIGNAL;
    }
    Some(rule)
}

/// A rule without the marks that frame information does not have.
pub(crate) fn unmarked(rule: &Rule) -> Rule {
    Rule { flags: rule.flags & !(abi::START | abi::ENTRY), ..*rule }
}

/// Compares the first, second and last address of every row; returns the number of compared rows and of rows with
/// expressions.
fn sweep(path: &str) -> (usize, usize) {
    let elf = std::fs::read(path).unwrap();
    let table = unwind::compile(&elf).unwrap();
    table.validate().unwrap();
    assert_eq!(table.stats.bad_fdes, 0, "{path}");
    let file = object::File::parse(&*elf).unwrap();
    let section = file.section_by_name(".eh_frame").unwrap();
    let text = file.section_by_name(".text").map_or(0, |s| s.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let machine = if file.architecture() == object::Architecture::Aarch64 { OF_AARCH64 } else { OF_X86_64 };
    let mut eh_frame = EhFrame::new(section.data().unwrap(), LittleEndian);
    eh_frame.set_vendor(machine.vendor);
    let mut context = UnwindContext::new();
    let (mut compared, mut expressions) = (0, 0);
    let mut entries = eh_frame.entries(&bases);
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        let signal = fde.cie().is_signal_trampoline();
        let mut rows = fde.rows(&eh_frame, &bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            let (start, end) = (row.start_address(), row.end_address().min(fde.end_address()));
            if start >= end {
                continue;
            }
            let Some(rule) = expected(row, signal, &machine) else {
                expressions += 1;
                assert!(table.lookup(start).is_some(), "{path} {start:#x}: no row");
                continue;
            };
            for svma in [start, start + 1, end - 1] {
                if svma < end {
                    assert_eq!(table.lookup(svma).map(unmarked), Some(rule), "{path} {svma:#x} {row:?}");
                }
            }
            compared += 1;
        }
    }
    (compared, expressions)
}

#[test]
fn libc() {
    let (compared, expressions) = sweep("/lib/x86_64-linux-gnu/libc.so.6");
    assert!(compared > 10_000 && (1..1000).contains(&expressions), "{compared} {expressions}");
}

#[test]
fn loader() {
    let (compared, _) = sweep("/lib64/ld-linux-x86-64.so.2");
    assert!(compared > 1000, "{compared}");
}

#[test]
fn this_test_itself() {
    let path = std::env::current_exe().unwrap();
    let (compared, _) = sweep(path.to_str().unwrap());
    assert!(compared > 5000, "{compared}");
}

/// Libraries of another machine.
#[test]
fn aarch64() {
    let libc = testkit::need!("aarch64-libc");
    for (name, rows) in [("libc.so.6", 10_000), ("libm.so.6", 1000), ("ld-linux-aarch64.so.1", 1000)] {
        let path = libc.with_file_name(name);
        let (compared, _) = sweep(path.to_str().unwrap());
        assert!(compared > rows, "{name} {compared}");
    }
}

#[test]
fn large_files() {
    for path in [crate::large_files::node(), crate::large_files::llvm(), testkit::needed("libcrypto")]
        .into_iter()
        .flatten()
    {
        let (compared, expressions) = sweep(path.to_str().unwrap());
        assert!(compared > 20_000 && expressions < compared, "{path:?} {compared} {expressions}");
    }
}

/// Without section headers, the program header gives the same rows.
#[test]
fn section_headers_are_not_needed() {
    for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"] {
        let mut elf = std::fs::read(path).unwrap();
        let with = unwind::compile(&elf).unwrap();
        elf[40..48].fill(0);
        elf[58..64].fill(0);
        let without = unwind::compile(&elf).unwrap();
        assert_eq!(without.stats.eh_frame_functions, with.stats.eh_frame_functions, "{path}");
        same_where_eh_frame_covers(&with, &without);
        let mut garbage = std::fs::read(path).unwrap();
        garbage[40..48].fill(0xee);
        same_where_eh_frame_covers(&with, &unwind::compile(&garbage).unwrap());
    }
}

fn same_where_eh_frame_covers(with: &Table, without: &Table) {
    let mut differing = 0;
    for (number, page) in with.pages.iter().enumerate() {
        for row in &with.rows[page.first_row as usize..][..page.count as usize] {
            let svma = (with.first_page + number as u64) << 16 | u64::from(row.offset);
            differing += usize::from(with.lookup(svma) != without.lookup(svma));
        }
    }
    // Code without a frame section is found by symbols, which need section headers.
    assert!(differing * 100 < with.rows.len(), "{differing} of {}", with.rows.len());
}
