//! Go code: rows from the stack-size table (`pcsp`) of `.gopclntab`, which stripping leaves in place.
//!
//! The table gives for every instruction how far sp is below its value at function entry, so CFA = sp + delta + 8.
//! It is preferred over `.debug_frame`, which Go's linker derives from the same table but without a rule for rbp.
//! The place where rbp is saved comes from the prologue's code.

use std::ops::Range;

mod resume;
mod scheduler;
mod stack_sizes;
mod stack_switch;
mod text_start;

use crate::abi::Rule;
use crate::abi::SIGNAL;
use crate::abi::cfa;
use crate::image::Image;
use crate::layer::Layer;
use crate::layer::RuleSet;
use crate::table::Stats;
use crate::x86_64;

use elf::gopclntab::{self, PcLnTab};

use scheduler::{CallOfC, Offsets};
use stack_sizes::{GoFunction, StackSizes};

/// Functions at the root of a goroutine's stack or of a system stack.
///
/// A goroutine that leaves its thread goes on with the frame of `mstart0` (`cfa::GO_GROW`), of which only the pc is known.
const ROOTS: [&[u8]; 5] =
    [b"runtime.goexit", b"runtime.mstart", b"runtime.mstart0", b"runtime.rt0_go", b"_rt0_amd64"];
/// Functions that switch to the system stack or to the stack of a new thread.
const SYSTEMSTACK: &[u8] = b"runtime.systemstack";
const MCALL: &[u8] = b"runtime.mcall";
const MORESTACK: &[u8] = b"runtime.morestack";
const ASMCGOCALL: &[u8] = b"runtime.asmcgocall";
const CLONE: &[u8] = b"runtime.clone";
/// The end of the scheduler.
const GOGO: &[u8] = b"gogo";
/// A call from C into Go.
const CGOCALLBACK: &[u8] = b"runtime.cgocallback";
const SWITCHES: [&[u8]; 5] = [SYSTEMSTACK, MCALL, MORESTACK, ASMCGOCALL, CLONE];
/// The runtime fakes calls of these from a signal handler: the "return address" is the interrupted instruction.
const INJECTED: [&[u8]; 4] =
    [b"runtime.asyncPreempt", b"runtime.sigpanic", b"runtime.sigpanic0", b"runtime.debugCallV2"];

/// Whether the file has a table of Go functions.
pub(crate) fn is_go(image: &Image<'_>) -> bool {
    table(image).is_some()
}

fn table<'a>(image: &Image<'a>) -> Option<PcLnTab<'a>> {
    gopclntab::find(&image.layout, image.data, &|| image.touch())
}

/// Rows of all Go functions; empty for files that are not Go.
pub(crate) fn layer(image: &Image<'_>, rules: &mut RuleSet, stats: &mut Stats) -> Layer {
    let mut layer = Layer::default();
    let Some(table) = table(image) else { return layer };
    let Some(text) = text_start::find(image, &table) else {
        stats.bad_fdes = stats.bad_fdes.saturating_add(1);
        return layer;
    };
    let mut functions = stack_sizes::functions(&table, text).peekable();
    let mut offsets = None;
    while let Some(mut function) = functions.next() {
        let Some(code) = image.code_at(function.start) else {
            stats.outside_fdes = stats.outside_fdes.saturating_add(1);
            continue;
        };
        function.end = function.end.min(code.end);
        if layer.spans.last().is_some_and(|span| span.end > function.start) || function.start >= function.end
        {
            stats.overlapping_fdes = stats.overlapping_fdes.saturating_add(1);
            continue;
        }
        let next_is_trampoline =
            functions.peek().is_some_and(|next| next.start == function.end && is_trampoline(image, next));
        // A signal handler's return address is the trampoline's first byte, and looked up one byte before it.
        let end = function.end - u64::from(next_is_trampoline && function.end - function.start > 1);
        // Often that is a byte between functions, which the table of the one before does not reach.
        let byte_before_is_free = layer.spans.last().is_some_and(|before| before.end < function.start);
        let start = function.start - u64::from(byte_before_is_free && is_trampoline(image, &function));
        layer.begin(start);
        if is_switch(&function) && offsets.is_none() {
            offsets = Some(read_offsets(image, &table, text));
        }
        match rows(image, &function, offsets.flatten(), &mut layer, rules, start) {
            Some(covered) => {
                layer.end(covered.min(end));
                stats.go_functions = stats.go_functions.saturating_add(1);
            }
            None => {
                layer.abandon();
                stats.bad_fdes = stats.bad_fdes.saturating_add(1);
            }
        }
    }
    layer
}

/// Whether a function loads sp with a value at no constant distance from the old one.
fn is_switch(function: &GoFunction<'_>) -> bool {
    function.writes_sp || SWITCHES.contains(&function.name)
}

/// Reads where the scheduler keeps goroutines. `None`: one of the functions is missing or does not look as expected.
fn read_offsets(image: &Image<'_>, table: &PcLnTab<'_>, text: u64) -> Option<Offsets> {
    let mut code: [&[u8]; 4] = [&[]; 4];
    for function in stack_sizes::functions(table, text) {
        if let Some(n) =
            [SYSTEMSTACK, MCALL, MORESTACK, CGOCALLBACK].iter().position(|name| *name == function.name)
        {
            code[n] = code_of(image, &function)?;
        }
    }
    let [systemstack, mcall, morestack, cgocallback] = code;
    Some(Offsets::read(systemstack, mcall, morestack)?.with_callback(cgocallback))
}

fn code_of<'a>(image: &Image<'a>, function: &GoFunction<'_>) -> Option<&'a [u8]> {
    let code = image.bytes_at(function.start)?;
    Some(&code[..code.len().min(usize::try_from(function.end - function.start).ok()?)])
}

fn is_trampoline(image: &Image<'_>, function: &GoFunction<'_>) -> bool {
    image.bytes_at(function.start).is_some_and(|code| code.starts_with(&x86_64::SIGRETURN_CODE))
}

/// Emits the rows of one function and returns where they end. `None`: its table is malformed.
fn rows(
    image: &Image<'_>,
    function: &GoFunction<'_>,
    offsets: Option<Offsets>,
    layer: &mut Layer,
    rules: &mut RuleSet,
    start: u64,
) -> Option<u64> {
    let code = code_of(image, function)?;
    let is_named = |names: &[&[u8]]| names.contains(&function.name);
    if is_named(&ROOTS) || function.start == image.entry {
        layer.row(start, rules.intern(Rule::ROOT));
        return Some(function.end);
    }
    if code.starts_with(&x86_64::SIGRETURN_CODE) {
        layer.row(start, rules.intern(x86_64::SIGNAL_TRAMPOLINE));
        return Some(function.end);
    }
    if is_switch(function) {
        return rows_of_switch(function, code, offsets, layer, rules);
    }
    let saved_from = frame_pointer_saved_from(function.stack_sizes, code)?;
    let flags = if is_named(&INJECTED) { SIGNAL } else { 0 };
    let mut end = function.start;
    for step in function.stack_sizes {
        let (from, to, delta) = step?;
        if from >= code.len() as u64 {
            break;
        }
        if layer.is_full() {
            return None;
        }
        let mut emit = |offset: u64| {
            let saved = delta > 0 && saved_from.is_some_and(|from| offset >= from);
            let rule = Rule { flags, ..x86_64::sp_rule(delta + 8, saved.then_some(-16)) };
            // Below zero, the return address has been popped.
            let rule = if delta < 0 { Rule::UNSUPPORTED } else { rule };
            layer.row(function.start + offset, rules.intern(rule));
        };
        emit(from);
        saved_from.filter(|offset| *offset > from && *offset < to).into_iter().for_each(emit);
        end = function.start + to;
    }
    (end > function.start).then_some(end.min(function.end))
}

/// Emits the rows of a function that loads sp with a value at no constant distance from the old one.
fn rows_of_switch(
    function: &GoFunction<'_>,
    code: &[u8],
    offsets: Option<Offsets>,
    layer: &mut Layer,
    rules: &mut RuleSet,
) -> Option<u64> {
    let go_rule = |kind| offsets.map_or(Rule::SWITCH, |offsets| offsets.rule(kind));
    let call_of_c = (function.name == ASMCGOCALL).then(|| CallOfC::read(code)).flatten();
    let states = stack_switch::states(code);
    let mut at = 0;
    for (n, (instruction, state)) in states.iter().enumerate() {
        if layer.is_full() {
            return None;
        }
        if instruction.start > at {
            // No path leads to the instructions before.
            layer.row(function.start + at as u64, rules.intern(Rule::UNSUPPORTED));
        }
        let rule = match (state.is_on_other_stack(), function.name) {
            // The goroutine may have left its stack, so rbp does not tell.
            (true, MCALL) => go_rule(cfa::GO_LEAVE),
            (true, MORESTACK) => go_rule(cfa::GO_GROW),
            (true, CLONE) => Rule::ROOT,
            (true, GOGO) if offsets.is_some_and(|offsets| offsets.are_loaded_by(code)) => {
                go_rule(cfa::GO_RESUME)
            }
            (true, name) => state.rule().unwrap_or_else(|| match (name, &call_of_c) {
                (SYSTEMSTACK, _) => go_rule(cfa::GO_CALL),
                (ASMCGOCALL, Some(call)) => call.rule(instruction.start, &other_stack_around(&states, n)),
                _ => Rule::SWITCH,
            }),
            (false, _) => state.rule().unwrap_or(Rule::UNSUPPORTED),
        };
        layer.row(function.start + instruction.start as u64, rules.intern(rule));
        at = instruction.end;
    }
    if at < code.len() {
        layer.row(function.start + at as u64, rules.intern(Rule::UNSUPPORTED));
    }
    (at > 0).then_some(function.end)
}

/// The instructions around one of them that run on another stack.
fn other_stack_around(states: &[(Range<usize>, stack_switch::SwitchState)], n: usize) -> Range<usize> {
    let ends_run = |entry: &&(Range<usize>, stack_switch::SwitchState)| !entry.1.is_on_other_stack();
    let from = states[..n].iter().rev().find(ends_run).map_or(0, |before| before.0.end);
    let to = states[n..].iter().find(ends_run).map_or(usize::MAX, |after| after.0.start);
    from..to
}

/// The offset after which rbp is saved at CFA − 16; the inner `None` if the function does not save it there.
///
/// Since Go 1.21 the prologue is `push %rbp; mov %rsp,%rbp; sub $n,%rsp`, before `sub $n,%rsp; mov %rbp,n-8(%rsp)`.
fn frame_pointer_saved_from(stack_sizes: StackSizes<'_>, code: &[u8]) -> Option<Option<u64>> {
    for step in stack_sizes {
        let (from, _, delta) = step?;
        if delta == 0 {
            continue;
        }
        let at = usize::try_from(from).ok()?;
        let (Some(before), Some(rest)) = (code.get(..at), code.get(at..)) else { return Some(None) };
        if before.last() == Some(&0x55) && delta == 8 {
            return Some(Some(from));
        }
        let displacement = match rest {
            [0x48, 0x89, 0x6c, 0x24, short, ..] => Some((i32::from(*short as i8), 5)),
            [0x48, 0x89, 0xac, 0x24, a, b, c, d, ..] => Some((i32::from_le_bytes([*a, *b, *c, *d]), 8)),
            _ => None,
        };
        return Some(displacement.and_then(|(off, len)| (off == delta - 8).then_some(from + len)));
    }
    Some(None)
}
