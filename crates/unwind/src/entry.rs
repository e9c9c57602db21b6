//! The entry point: the outermost frame of a process, often without call frame information.
//!
//! The kernel jumps there with `argc` in place of a return address, so a walk must end there. If nothing covers the ELF
//! entry point (assembly startup code in the dynamic loader of glibc and in musl), its code gets the root rule: from
//! the entry up to the first instruction that ends execution, at most 256 bytes, without code that is covered or that
//! it calls.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Mnemonic;

use crate::abi::Rule;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;

const MAX_LEN: usize = 256;

/// A root rule for the code at the entry point, if `covered` does not cover it.
pub(crate) fn layer(image: &Image<'_>, covered: &Layer, rules: &mut RuleSet) -> Layer {
    let mut layer = Layer::default();
    let entry = image.entry;
    let Some(code) = image.code_at(entry).and_then(|_| image.bytes_at(entry)) else { return layer };
    if covered.covers(entry) {
        return layer;
    }
    let mut decoder = Decoder::with_ip(64, &code[..code.len().min(MAX_LEN)], entry, DecoderOptions::NONE);
    let mut limit = u64::MAX;
    let mut end = entry;
    for instruction in &mut decoder {
        if instruction.is_invalid() || instruction.ip() >= limit || covered.covers(instruction.ip()) {
            break;
        }
        end = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch if instruction.mnemonic() != Mnemonic::Hlt => {
            }
            FlowControl::Call => {
                let target = instruction.near_branch_target();
                if target > entry {
                    limit = limit.min(target);
                }
            }
            FlowControl::IndirectCall => {}
            _ => break,
        }
    }
    if end > entry {
        layer.begin(entry);
        layer.row(entry, rules.intern(Rule::ROOT));
        layer.end_before_code(end);
    }
    layer
}
