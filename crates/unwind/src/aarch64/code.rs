//! Rows for code without call frame information: PLT stubs, the signal trampoline, the entry point, and functions
//! without a frame, such as those of the vdso.

use std::ops::Range;

use super::LEAF;
use super::leaf;
use crate::abi::Rule;
use crate::abi::SIGNAL;
use crate::abi::cfa;
use crate::abi::fp;
use crate::abi::ra;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;

/// `mov x8, #139; svc #0`: a complete signal trampoline (`rt_sigreturn`), in the vdso and in musl.
const SIGRETURN_CODE: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];

/// At the trampoline sp points to the `rt_sigframe`: after `siginfo_t` (128 bytes) comes the `ucontext_t`. Its
/// `uc_mcontext`, at 176, holds x0 at 8, x29 at 240, sp at 256 and pc at 264 (arch/arm64/include/uapi/asm/sigcontext.h,
/// ucontext.h).
const SIGNAL_TRAMPOLINE: Rule = Rule {
    cfa: cfa::SP_DEREF,
    ra: ra::SP,
    fp: fp::SP,
    flags: SIGNAL,
    cfa_off: 560,
    cfa_add: 0,
    ra_off: 568,
    fp_off: 544,
};

/// The first stub of `.plt` saves its registers: `stp x16, x30, [sp, #-16]!`, possibly after `bti c`.
const PUSH_LINK: [u8; 4] = [0xf0, 0x7b, 0xbf, 0xa9];
const FIRST_STUB: u64 = 32;
/// Larger gaps are not searched for a trampoline. The gap of a C library or of the vdso has a few bytes.
const MAX_GAP: u64 = 4096;
/// Limit of all bytes searched for trampolines.
const MAX_SEARCHED: u64 = 16 << 20;
/// Limits of the number of stub sections, and of their size.
const MAX_STUB_SECTIONS: usize = 8;
const MAX_STUBS: u64 = 1 << 20;
/// Limit of instructions of startup code.
const MAX_ENTRY: usize = 64;

/// Rows for such code that `covered` does not cover.
pub(crate) fn layer(image: &Image<'_>, covered: &Layer, rules: &mut RuleSet) -> Layer {
    let mut pieces: Vec<(Range<u64>, Rule)> = Vec::new();
    let plt = image.layout.sections.iter().filter(|section| section.name.starts_with(b".plt"));
    for section in plt.take(MAX_STUB_SECTIONS) {
        let Some(end) = section.address.checked_add(section.size.min(MAX_STUBS)) else { continue };
        if let Some(code) = image.code_at(section.address).filter(|code| end <= code.end) {
            stubs(image, section.address..end.min(code.end), &mut pieces);
        }
    }
    let mut left = MAX_SEARCHED;
    for code in &image.code {
        for gap in covered.gaps(code) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub((gap.end - gap.start).min(MAX_GAP));
            if let Some(trampoline) = trampoline(image, &gap) {
                pieces.push((trampoline, SIGNAL_TRAMPOLINE));
            }
        }
    }
    pieces.extend(entry(image).map(|start| (start, Rule::ROOT)));
    pieces.extend(leaf::functions(image, covered).into_iter().map(|function| (function, LEAF)));
    pieces.sort_by_key(|(piece, _)| piece.start);
    let mut layer = Layer::default();
    let mut done = 0;
    for (piece, rule) in pieces {
        let free = covered.gaps(&(piece.start.max(done)..piece.end.max(done)));
        let Some(free) = free.first().filter(|free| free.end > free.start) else { continue };
        layer.begin(free.start);
        layer.row(free.start, rules.intern(rule));
        layer.end_before_code(free.end);
        done = free.end;
    }
    layer
}

/// A stub jumps without changing the frame. Only the first stub, which resolves a function, has a frame.
fn stubs(image: &Image<'_>, section: Range<u64>, pieces: &mut Vec<(Range<u64>, Rule)>) {
    let pushed = image.bytes_at(section.start).and_then(|code| {
        let at = code.as_chunks::<4>().0.iter().take(2).position(|word| *word == PUSH_LINK)?;
        Some(section.start + 4 * at as u64 + 4)
    });
    let with_frame = Rule { cfa: cfa::SP, cfa_off: 16, ra: ra::CFA, ra_off: -8, ..Rule::NONE };
    match pushed.map(|from| from..section.end.min(section.start + FIRST_STUB)) {
        Some(framed) if framed.start < framed.end => {
            pieces.push((section.start..framed.start, LEAF));
            pieces.push((framed.clone(), with_frame));
            pieces.push((framed.end..section.end, LEAF));
        }
        _ => pieces.push((section, LEAF)),
    }
}

/// The code at the entry point, where the kernel starts a process: up to the first instruction that ends execution,
/// without the code that it calls.
fn entry(image: &Image<'_>) -> Option<Range<u64>> {
    let (entry, code) = (image.entry, image.code_at(image.entry)?);
    let words = image.bytes_at(entry)?.as_chunks::<4>().0;
    let (mut end, mut limit) = (entry, code.end);
    for word in words.iter().take(MAX_ENTRY).map(|word| u32::from_le_bytes(*word)) {
        if end.checked_add(4)? > limit {
            break;
        }
        let at = end;
        end += 4;
        match word >> 26 {
            // bl
            0b10_0101 => {
                let distance = i64::from((word << 6) as i32 >> 6) * 4;
                let target = at.wrapping_add_signed(distance);
                if target > entry {
                    limit = limit.min(target);
                }
            }
            // b
            0b00_0101 => break,
            // br, ret; brk
            _ if matches!(word & 0xffff_fc1f, 0xd61f_0000 | 0xd65f_0000)
                || word & 0xffe0_001f == 0xd420_0000 =>
            {
                break;
            }
            _ => {}
        }
    }
    (end > entry).then_some(entry..end)
}

/// A trampoline in a gap, including the byte before it: a handler returns to the first instruction, and return
/// addresses are looked up one byte before.
fn trampoline(image: &Image<'_>, gap: &Range<u64>) -> Option<Range<u64>> {
    let len = usize::try_from((gap.end - gap.start).min(MAX_GAP)).ok()?;
    let code = image.bytes_at(gap.start)?;
    let code = &code[..len.min(code.len())];
    let unaligned = (gap.start.wrapping_neg() & 3) as usize;
    let words = code.get(unaligned..)?;
    let at = words.windows(8).step_by(4).position(|code| code == SIGRETURN_CODE)?;
    let start = gap.start + unaligned as u64 + 4 * at as u64;
    Some(start.saturating_sub(1).max(gap.start)..start + 8)
}
