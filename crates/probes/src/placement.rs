//! The cheapest place for a probe of a function.
//!
//! The kernel emulates `push`, `nop`, `jmp`, `call` and conditional jumps. It executes every other instruction out of line with a debug
//! exception behind it, which costs ten times as much. A probe therefore goes to the first emulated instruction near the entry, where
//! the same holds as at the entry: the return address is at the stack pointer, and arguments are where the caller put them.
//!
//! Guaranteed: the place is passed once by each call that does not fault before it, and by nothing else in the function's own code: no direct jump leads to the
//! code that is passed, and no other symbol begins there. Where that cannot be shown, the entry is the place.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::image::Image;
use crate::location::Location;

/// Instructions that are looked at.
const MAX_INSTRUCTIONS: usize = 6;
/// Longer functions are probed at their entry.
const MAX_FUNCTION: u64 = 1 << 20;
/// Offset of the limit of the stack in Go's structure of a goroutine.
const STACK_GUARD: u64 = 16;

/// Where to put a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The offset in the file.
    pub offset: u64,
    /// Its link-time address.
    pub address: u64,
    /// The kernel emulates the instruction there, so that a hit is cheap.
    pub is_emulated: bool,
}

/// The location itself.
pub(crate) fn unplaced(location: &Location) -> Placement {
    Placement { offset: location.offset, address: location.address, is_emulated: false }
}

/// The place for a probe of the function at the location, or the location itself if it is no entry of a function.
pub(crate) fn place(image: &Image, location: &Location) -> Placement {
    let here = unplaced(location);
    if !image.is_x86() {
        return here;
    }
    let entry = location.address;
    let first = image.code(entry..entry.saturating_add(15));
    let is_emulated = Decoder::with_ip(64, first, entry, DecoderOptions::NONE)
        .into_iter()
        .next()
        .is_some_and(|instruction| is_emulated(first.get(..instruction.len()).unwrap_or_default()));
    let here = Placement { is_emulated, ..here };
    let Some(function) = location.function.as_ref().filter(|_| !is_emulated) else { return here };
    let size = function.addresses.end.saturating_sub(entry);
    if size == 0 || size > MAX_FUNCTION {
        return here;
    }
    let code = image.code(entry..function.addresses.end);
    let found = candidate(code, entry, image.is_go()).filter(|place| *place < function.next_symbol);
    let place = found.filter(|place| is_passed_once(code, entry, *place));
    let placed = place.and_then(|address| {
        let offset = image.code_offset(address)?;
        Some(Placement { offset, address, is_emulated: true })
    });
    placed.unwrap_or(here)
}

/// The first emulated instruction that can be reached from the entry by passing harmless ones.
fn candidate(code: &[u8], entry: u64, is_go: bool) -> Option<u64> {
    let mut info = InstructionInfoFactory::new();
    let mut decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    let mut before: Option<Instruction> = None;
    let mut stack_check = None;
    for instruction in (&mut decoder).into_iter().take(MAX_INSTRUCTIONS) {
        let at = usize::try_from(instruction.ip().wrapping_sub(entry)).ok()?;
        let bytes = code.get(at..at.checked_add(instruction.len())?)?;
        if instruction.is_invalid() {
            break;
        }
        if is_go && before.is_some_and(|before| is_stack_check(&before, &instruction)) {
            // The slow path grows the stack and begins again at the entry: only behind it a call counts once.
            stack_check = Some(instruction.ip());
        } else if is_emulated(bytes) {
            return Some(instruction.ip());
        } else if !is_harmless(&instruction, &mut info, is_go) {
            break;
        }
        before = Some(instruction);
    }
    stack_check
}

/// Whether the kernel emulates the instruction. Longer `nop`s are emulated by recent kernels only, and the one of 5 bytes may become a call there.
fn is_emulated(bytes: &[u8]) -> bool {
    let is_push = matches!(bytes, [0x50..=0x57] | [0x41, 0x50..=0x57]);
    let is_nop = matches!(bytes, [0x90] | [0x66, 0x90]);
    let is_branch = matches!(
        bytes,
        [0xeb | 0x70..=0x7f, _] | [0xe8 | 0xe9, _, _, _, _] | [0x0f, 0x80..=0x8f, _, _, _, _]
    );
    is_push || is_nop || is_branch
}

/// Whether everything that a probe may look at is the same behind the instruction as before it.
fn is_harmless(instruction: &Instruction, factory: &mut InstructionInfoFactory, is_go: bool) -> bool {
    if instruction.flow_control() != FlowControl::Next {
        return false;
    }
    let info = factory.info(instruction);
    let writes = |access: OpAccess| {
        matches!(
            access,
            OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
        )
    };
    let spoils = |register: Register| {
        let full = register.full_register();
        full == Register::RSP || full.is_vector_register() || is_argument(full, is_go)
    };
    !info.used_memory().iter().any(|memory| writes(memory.access()))
        && !info.used_registers().iter().any(|used| writes(used.access()) && spoils(used.register()))
}

/// Whether calls pass arguments in the register. Floating-point numbers are passed in vector registers, which are not asked about here.
fn is_argument(register: Register, is_go: bool) -> bool {
    use Register::{R8, R9, R10, R11, RAX, RBX, RCX, RDI, RDX, RSI};
    match is_go {
        false => matches!(register, RDI | RSI | RDX | RCX | R8 | R9),
        true => matches!(register, RAX | RBX | RCX | RDI | RSI | R8 | R9 | R10 | R11 | RDX),
    }
}

/// Whether these two are Go's check of the stack's size.
fn is_stack_check(compare: &Instruction, jump: &Instruction) -> bool {
    compare.mnemonic() == Mnemonic::Cmp
        && matches!(compare.op0_register(), Register::RSP | Register::R12)
        && compare.op1_kind() == OpKind::Memory
        && compare.memory_base() == Register::R14
        && compare.memory_index() == Register::None
        && compare.memory_displacement64() == STACK_GUARD
        && jump.mnemonic() == Mnemonic::Jbe
}

/// Whether no jump of the function leads to what is between entry and place, or to the place.
fn is_passed_once(code: &[u8], entry: u64, place: u64) -> bool {
    Decoder::with_ip(64, code, entry, DecoderOptions::NONE).into_iter().all(|instruction| {
        let is_jump = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Call
                | FlowControl::XbeginXabortXend
        );
        let target = instruction.near_branch_target();
        !(instruction.is_invalid() || is_jump && target > entry && target <= place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: u64 = 0x1000;

    /// Bytes behind the entry; `None`: the entry.
    fn placed(code: &[u8], is_go: bool) -> Option<u64> {
        candidate(code, ENTRY, is_go)
            .filter(|place| is_passed_once(code, ENTRY, *place))
            .map(|place| place - ENTRY)
    }

    #[test]
    fn harmless_instructions_are_passed() {
        for (what, code, wanted) in [
            ("push %rbp", &b"\x55\xc3"[..], Some(0)),
            ("push %r15", b"\x41\x57\xc3", Some(0)),
            ("endbr64; push", b"\xf3\x0f\x1e\xfa\x55\xc3", Some(4)),
            ("endbr64; nop of 5 bytes; push", b"\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00\x55\xc3", Some(9)),
            ("test %rdi,%rdi; je", b"\x48\x85\xff\x74\x01\xc3\xc3", Some(3)),
            (
                "mov %rsp,%rbp; mov (%rdi),%eax; xor %ebx,%ebx; jmp",
                b"\x48\x89\xe5\x8b\x07\x31\xdb\xeb\x00\xc3",
                Some(7),
            ),
            ("sub $8,%rsp; push", b"\x48\x83\xec\x08\x55\xc3", None),
            ("mov %eax,(%rdi); push", b"\x89\x07\x55\xc3", None),
            ("mov %esi,%edi; push", b"\x89\xf7\x55\xc3", None),
            ("pxor %xmm0,%xmm0; push", b"\x66\x0f\xef\xc0\x55\xc3", None),
            ("ret; push", b"\xc3\x55", None),
            ("syscall; push", b"\x0f\x05\x55", None),
            (
                "six that are harmless, then push",
                b"\x85\xff\x85\xff\x85\xff\x85\xff\x85\xff\x85\xff\x55\xc3",
                None,
            ),
            (
                "five that are harmless, then push",
                b"\x85\xff\x85\xff\x85\xff\x85\xff\x85\xff\x55\xc3",
                Some(10),
            ),
            ("nothing", b"", None),
            ("no instruction", b"\x06\x55", None),
        ] {
            assert_eq!(placed(code, false), wanted, "{what}");
        }
        assert_eq!(placed(b"\x31\xc0\x55\xc3", false), Some(2), "xor %eax,%eax");
        assert_eq!(placed(b"\x31\xc0\x55\xc3", true), None, "where Go passes its first argument");
    }

    #[test]
    fn a_loop_at_the_entry_keeps_the_probe_at_the_entry() {
        // mov %esi,%eax; test %rdi,%rdi; je end; mov (%rdi),%ebx; jmp back to the test; end: ret.
        let code = b"\x89\xf0\x48\x85\xff\x74\x04\x8b\x1f\xeb\xf7\xc3";
        assert_eq!(candidate(code, ENTRY, false), Some(ENTRY + 5));
        assert_eq!(placed(code, false), None);
        // The same with a jump to the entry: each round is a call of the function by tail recursion, and counts at the entry as well.
        let code = b"\x89\xf0\x48\x85\xff\x74\x04\x8b\x1f\xeb\xf5\xc3";
        assert_eq!(placed(code, false), Some(5));
    }

    #[test]
    fn the_stack_check_of_go_is_passed() {
        // cmp 0x10(%r14),%rsp; jbe slow; push %rbp; pop; ret; slow: call; jmp entry.
        let code = b"\x49\x3b\x66\x10\x76\x03\x55\x5d\xc3\xe8\x00\x00\x00\x00\xeb\xf0";
        assert_eq!(placed(code, true), Some(6));
        assert_eq!(placed(code, false), Some(4), "in other languages it is a branch");
        // Behind it nothing is emulated: the check itself.
        let code = b"\x49\x3b\x66\x10\x76\x04\x48\x83\xec\x08\xc3\xe8\x00\x00\x00\x00\xeb\xee";
        assert_eq!(placed(code, true), Some(4));
    }
}
