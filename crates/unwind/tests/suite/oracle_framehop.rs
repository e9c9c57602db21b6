//! Compares the reference walker with framehop: single steps from every row of libc.so.6 over a synthetic stack.
#![allow(clippy::unwrap_used)]

use framehop::CacheNative;
use framehop::ExplicitModuleSectionInfo;
use framehop::FrameAddress;
use framehop::Module;
use framehop::Unwinder;
use framehop::UnwinderNative;
use framehop::x86_64::UnwindRegsX86_64;
use object::Object;
use object::ObjectSection;
use unwind::Registers;
use unwind::abi;

const PATH: &str = "/lib/x86_64-linux-gnu/libc.so.6";
const STACK: u64 = 0x7fff_0000_0000;
/// Every word of the stack has a distinct value, so that a word from a wrong slot is noticed.
fn word(address: u64) -> Option<u64> {
    (address.is_multiple_of(8) && (STACK..STACK + (1 << 20)).contains(&address))
        .then(|| 0x5555_0000_0000 + (address & 0xf_ffff))
}

#[test]
fn steps_agree() {
    let elf = std::fs::read(PATH).unwrap();
    let table = unwind::compile(&elf).unwrap();
    let file = object::File::parse(&*elf).unwrap();
    let range = |name: &str| file.section_by_name(name).map(|s| s.address()..s.address() + s.size());
    let data = |name: &str| file.section_by_name(name).and_then(|s| s.data().ok()).map(<[u8]>::to_vec);
    let section_info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let mut unwinder: UnwinderNative<Vec<u8>, _> = UnwinderNative::new();
    unwinder.add_module(Module::new(PATH.into(), 0..1 << 24, 0, section_info));
    let mut cache: CacheNative<_> = CacheNative::new();
    let mut read = |address| word(address).ok_or(());
    let (sp, fp) = (STACK + 0x1000, STACK + 0x8000);
    let (mut equal, mut differing) = (0, Vec::new());
    for (number, page) in table.pages.iter().enumerate() {
        for row in &table.rows[page.first_row as usize..][..page.count as usize] {
            let pc = (table.first_page + number as u64) << 16 | u64::from(row.offset);
            let Some(rule) = table.lookup(pc) else { continue };
            // framehop has three registers only. Roots and unsupported frames have no next frame.
            let walkable = matches!(rule.cfa, abi::cfa::SP | abi::cfa::FP | abi::cfa::PLT);
            if !walkable || rule.ra != abi::ra::CFA || rule.fp == abi::fp::UNDEFINED {
                continue;
            }
            let ours = unwind::step(&table, &Registers { pc, sp, fp, exact: true }, |_| None, &word);
            let mut regs = UnwindRegsX86_64::new(pc, sp, fp);
            let address = FrameAddress::from_instruction_pointer(pc);
            let theirs = unwinder.unwind_frame(address, &mut regs, &mut cache, &mut read);
            match (ours, theirs) {
                (Ok(next), Ok(Some(ra))) if (next.pc, next.sp, next.fp) == (ra, regs.sp(), regs.bp()) => {
                    equal += 1
                }
                (ours, theirs) => differing.push((pc, *rule, ours, theirs)),
            }
        }
    }
    // framehop approximates rules without a compact form, and follows rbp in PLT stubs.
    assert!(equal > 15_000, "{equal}");
    assert!(
        differing.len() * 200 < equal,
        "{} of {equal} differ, first: {:x?}",
        differing.len(),
        &differing[..8]
    );
}
