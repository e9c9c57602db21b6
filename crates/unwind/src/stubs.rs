//! Jump stubs without call frame information: stubs through which a static program calls functions selected at its
//! start (`memcpy` and similar), and stubs of lazy binding, which some linkers do not describe (lld).
//!
//! A stub is `jmp *ADDRESS(%rip)` and padding. A stub of lazy binding continues with `push $INDEX; jmp FIRST`; the
//! section's first stub is `push ADDRESS(%rip); jmp *ADDRESS(%rip)` (System V ABI of x86-64, section 5.2.4). The rows
//! end at any other instruction.

use std::ops::Range;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Mnemonic;
use iced_x86::OpKind;

use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::x86_64;

/// The sections of such stubs, by the start of their names.
const SECTIONS: [&[u8]; 2] = [b".plt", b".iplt"];
/// A larger section is not a table of stubs.
const MAX_SIZE: usize = 1 << 20;

/// Rows for the stubs that `covered` does not cover.
pub(crate) fn layer(image: &Image<'_>, covered: &Layer, rules: &mut RuleSet) -> Layer {
    let mut sections: Vec<_> = image
        .layout
        .sections
        .iter()
        .filter(|section| SECTIONS.iter().any(|name| section.name.starts_with(name)))
        .filter(|section| image.code_at(section.address).is_some())
        .collect();
    sections.sort_by_key(|section| section.address);
    let mut layer = Layer::default();
    let mut done = 0;
    for section in sections {
        let Some(end) = section.address.checked_add(section.size.min(MAX_SIZE as u64)) else { continue };
        let range = section.address.max(done)..end;
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
    let (depths, end) = depths(&code[..len], gap.start);
    if end > gap.start {
        layer.begin(gap.start);
        for (address, depth) in depths {
            layer.row(address, rules.intern(x86_64::sp_rule(depth, None)));
        }
        layer.end_before_code(end);
    }
}

/// The distance of the CFA from the stack pointer, with the addresses where it changes, and the end of the known code.
fn depths(code: &[u8], start: u64) -> (Vec<(u64, i32)>, u64) {
    const CALLED: i32 = 8;
    const PUSHED: i32 = CALLED + 8;
    let (mut depths, mut end, mut depth, mut jumped) = (Vec::new(), start, CALLED, false);
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        let of_memory = instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand();
        let padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        if jumped && !padding {
            (depth, jumped) = (CALLED, false);
        }
        let (before, after) = match instruction.mnemonic() {
            Mnemonic::Endbr64 => (depth, depth),
            _ if padding => (depth, depth),
            Mnemonic::Jmp if of_memory || depth == PUSHED && instruction.is_jmp_short_or_near() => {
                jumped = true;
                (depth, depth)
            }
            // The first stub. The caller has pushed an index.
            Mnemonic::Push if of_memory => (PUSHED, PUSHED + 8),
            Mnemonic::Push if instruction.op0_kind() == OpKind::Immediate32to64 && depth == CALLED => {
                (CALLED, PUSHED)
            }
            _ => break,
        };
        if depths.last().is_none_or(|&(_, known)| known != before) {
            depths.push((instruction.ip(), before));
        }
        depth = after;
        end = instruction.next_ip();
    }
    (depths, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first stub and another one, as lld writes them (from a shared library of LLVM).
    const LAZY: [u8; 32] = [
        0xff, 0x35, 0x2a, 0xfc, 0x1c, 0x00, // push 0x1cfc2a(%rip)
        0xff, 0x25, 0x2c, 0xfc, 0x1c, 0x00, // jmp *0x1cfc2c(%rip)
        0x0f, 0x1f, 0x40, 0x00, // nopl (%rax)
        0xff, 0x25, 0x2a, 0xfc, 0x1c, 0x00, // jmp *0x1cfc2a(%rip)
        0x68, 0x00, 0x00, 0x00, 0x00, // push $0
        0xe9, 0xe0, 0xff, 0xff, 0xff, // jmp to the first
    ];

    #[test]
    fn stubs_of_lazy_binding_push() {
        let known = vec![(0x1000, 16), (0x1006, 24), (0x1010, 8), (0x101b, 16)];
        assert_eq!(depths(&LAZY, 0x1000), (known, 0x1020));
    }

    #[test]
    fn stubs_with_endbr64_push_at_once() {
        // endbr64; push $1; bnd jmp; nop
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0, 0xf2, 0xe9, 0xe1, 0xff, 0xff, 0xff, 0x90];
        assert_eq!(depths(&code, 0x20), (vec![(0x20, 8), (0x29, 16)], 0x30));
    }

    #[test]
    fn other_code_is_not_a_stub() {
        // call; a jump to somewhere without a push; a push of a register; a jump by a register.
        for code in [&[0xe8, 0, 0, 0, 0][..], &[0xe9, 0, 0, 0, 0], &[0x55], &[0xff, 0xe0], &[]] {
            assert_eq!(depths(code, 0x40).1, 0x40, "{code:x?}");
        }
        let mut spoiled = LAZY;
        spoiled[22] = 0x55;
        assert_eq!(depths(&spoiled, 0).1, 22);
    }
}
