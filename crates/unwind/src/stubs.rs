//! Jump stubs without call frame information: those through which a static program reaches functions that are chosen
//! at its start (`memcpy` and the like). A stub changes neither stack nor registers.
//!
//! Only what is nothing but `jmp *ADDRESS(%rip)` and padding is taken; stubs of lazy binding push, and their linkers
//! describe them.

use std::ops::Range;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Mnemonic;
use iced_x86::OpKind;

use crate::elf::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::x86_64;

/// Sections that linkers put such stubs in, by the start of their names.
const SECTIONS: [&[u8]; 2] = [b".plt", b".iplt"];
/// More is no table of stubs.
const MAX_SIZE: usize = 1 << 20;

/// Rows for the stubs that `covered` has nothing for.
pub(crate) fn layer(image: &Image<'_>, covered: &Layer, rules: &mut RuleSet) -> Layer {
    let mut sections: Vec<_> = image
        .sections
        .iter()
        .filter(|section| SECTIONS.iter().any(|name| section.name.starts_with(name)))
        .filter(|section| image.code_at(section.addr).is_some())
        .collect();
    sections.sort_by_key(|section| section.addr);
    let mut layer = Layer::default();
    let mut done = 0;
    for section in sections {
        let Some(end) = section.addr.checked_add(section.size.min(MAX_SIZE as u64)) else { continue };
        let range = section.addr.max(done)..end;
        for gap in covered.gaps(&range) {
            add_stubs(image, gap, rules, &mut layer);
        }
        done = done.max(end);
    }
    layer
}

fn add_stubs(image: &Image<'_>, gap: Range<u64>, rules: &mut RuleSet, layer: &mut Layer) {
    let Some(code) = image.bytes_at(gap.start) else { return };
    let len = usize::try_from(gap.end - gap.start).unwrap_or(0).min(code.len()).min(MAX_SIZE);
    let mut decoder = Decoder::with_ip(64, &code[..len], gap.start, DecoderOptions::NONE);
    let mut end = gap.start;
    for instruction in &mut decoder {
        let plain = match instruction.mnemonic() {
            Mnemonic::Jmp => {
                instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand()
            }
            Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Int3 => true,
            _ => false,
        };
        if instruction.is_invalid() || !plain {
            break;
        }
        end = instruction.next_ip();
    }
    if end > gap.start {
        layer.begin(gap.start);
        layer.row(gap.start, rules.intern(x86_64::sp_rule(8, None)));
        layer.end_before_code(end);
    }
}
