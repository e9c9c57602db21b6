//! The specifics of x86-64: DWARF register numbers, and the translation of call frame information into rules.
//!
//! `aarch64` is the same for the other machine.

use crate::abi::Rule;
use crate::abi::SIGNAL;
use crate::abi::cfa;
use crate::abi::fp;
use crate::abi::ra;
use crate::cfi::CfaRule;
use crate::cfi::State;
use crate::expression::Numbers;
use crate::translate;

/// rbp and rsp; 16 is the column of the return address.
pub(crate) const NUMBERS: Numbers = Numbers { frame_pointer: 6, stack_pointer: 7, last: 15 };

/// `breg7 8; breg16 0; lit15; and; LITn; ge; lit3; shl; plus`: the expression of linkers for `.plt`. The operand of
/// `LITn`, zero here, is the offset after the stub's push of its index (11, or less with IBT).
const PLT_BEFORE: [u8; 6] = [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a];
const PLT_AFTER: [u8; 4] = [0x2a, 0x33, 0x24, 0x22];

/// Translates one row with a caller. `None`: it cannot be expressed.
pub(crate) fn translate(state: &State<'_>) -> Option<Rule> {
    let mut rule = canonical_frame_address(&state.cfa)?;
    let off;
    (rule.ra, off) = translate::return_address(&state.ra, &NUMBERS)?;
    rule.ra_off = i16::try_from(off).ok()?;
    // If both are elsewhere, as in longjmp, the stack pointer is too.
    if rule.ra == ra::REG && rule.cfa != cfa::SP {
        return None;
    }
    // The same where the return address is not below the CFA: both are in a structure, as in setcontext.
    if rule.ra == ra::CFA && rule.ra_off >= 0 && rule.cfa == cfa::REG {
        return None;
    }
    (rule.fp, rule.fp_off) = translate::frame_pointer(&state.fp, &NUMBERS);
    Some(rule)
}

fn canonical_frame_address(rule: &CfaRule<'_>) -> Option<Rule> {
    if let CfaRule::Expression(expression) = rule
        && let Some(threshold) = plt_threshold(expression)
    {
        return Some(Rule { cfa: cfa::PLT, cfa_off: 8, cfa_add: threshold.into(), ..Rule::NONE });
    }
    translate::canonical_frame_address(rule, &NUMBERS)
}

fn plt_threshold(expression: &[u8]) -> Option<u8> {
    let rest = expression.strip_prefix(&PLT_BEFORE)?;
    let (&literal, rest) = rest.split_first()?;
    (rest == PLT_AFTER && (0x30..=0x4f).contains(&literal)).then(|| literal - 0x30)
}

/// Whether an expression for the CFA is the one of `.plt`.
pub(crate) fn is_plt_expression(expression: &[u8]) -> bool {
    plt_threshold(expression).is_some()
}

/// `CFA = sp + cfa_off`, return address below the CFA, frame pointer as given.
pub(crate) fn sp_rule(cfa_off: i32, saved_fp: Option<i32>) -> Rule {
    let (fp, fp_off) = saved_fp.map_or((fp::SAME, 0), |off| (fp::CFA, off));
    Rule { cfa: cfa::SP, ra: ra::CFA, fp, cfa_off, ra_off: -8, fp_off, ..Rule::NONE }
}

/// `CFA = fp + cfa_off`, return address below the CFA, frame pointer saved at `CFA + fp_off`.
pub(crate) fn fp_rule(cfa_off: i32, fp_off: i32) -> Rule {
    Rule { cfa: cfa::FP, ra: ra::CFA, fp: fp::CFA, cfa_off, ra_off: -8, fp_off, ..Rule::NONE }
}

/// At the first instruction of a signal trampoline, sp points to the `ucontext_t` of the `rt_sigframe`: the handler's
/// return has popped the pointer to the trampoline. `uc_mcontext`, at 40, holds rbp at 80, rsp at 120 and rip at 128
/// (arch/x86/include/uapi/asm/sigcontext.h).
pub(crate) const SIGNAL_TRAMPOLINE: Rule = Rule {
    cfa: cfa::SP_DEREF,
    ra: ra::SP,
    fp: fp::SP,
    flags: SIGNAL,
    cfa_off: 160,
    cfa_add: 0,
    ra_off: 168,
    fp_off: 120,
};

/// `mov $15, %rax; syscall`: a complete signal trampoline (`rt_sigreturn`), in glibc, musl and Go.
pub(crate) const SIGRETURN_CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// `nop`.
pub(crate) const NOP: u8 = 0x90;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfi::RegisterRule;
    use crate::expression::MAX_EXPRESSION;
    use crate::machine::Machine;

    const RA: RegisterRule<'static> = RegisterRule::Offset(-8);

    fn rule(state: &State<'_>, signal: bool) -> Rule {
        Machine::X86_64.rule(state, signal)
    }

    fn of(cfa: CfaRule<'_>, fp: RegisterRule<'_>) -> Rule {
        rule(&State { cfa, ra: RA, fp }, false)
    }

    #[test]
    fn registers_and_offsets() {
        assert_eq!(of(CfaRule::Register(7, 16), RegisterRule::Unset), sp_rule(16, None));
        assert_eq!(of(CfaRule::Register(7, 80_000), RegisterRule::Offset(-16)), sp_rule(80_000, Some(-16)));
        assert_eq!(of(CfaRule::Register(6, 16), RegisterRule::Offset(-16)), fp_rule(16, -16));
        let drap = Rule { cfa: cfa::REG, flags: 10, ra_off: -8, ..Rule::NONE };
        assert_eq!(of(CfaRule::Register(10, 0), RegisterRule::Unset), drap);
        assert_eq!(of(CfaRule::Register(7, 1 << 31), RegisterRule::Unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Register(17, 0), RegisterRule::Unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Unset, RegisterRule::Unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Register(7, 8), RegisterRule::Register(3)).fp, fp::UNDEFINED);
    }

    #[test]
    fn return_addresses_that_are_not_on_the_stack() {
        let state = State { cfa: CfaRule::Unset, ra: RegisterRule::Undefined, fp: RegisterRule::Unset };
        assert_eq!(rule(&state, false), Rule::ROOT);
        // As in vfork of glibc: the child must not overwrite the return address on the stack that it shares with its
        // parent.
        let state =
            State { cfa: CfaRule::Register(7, 0), ra: RegisterRule::Register(5), fp: RegisterRule::Unset };
        let in_rdi = Rule { cfa: cfa::SP, ra: ra::REG, ra_off: 5, ..Rule::NONE };
        assert_eq!(rule(&state, false), in_rdi);
        let of_longjmp =
            State { cfa: CfaRule::Register(5, 0), ra: RegisterRule::Register(1), fp: RegisterRule::Unset };
        assert_eq!(rule(&of_longjmp, false), Rule::UNSUPPORTED);
        let of_setcontext = State {
            cfa: CfaRule::Register(1, 0),
            ra: RegisterRule::Offset(168),
            fp: RegisterRule::Offset(120),
        };
        assert_eq!(rule(&of_setcontext, false), Rule::UNSUPPORTED);
        let unset = State { cfa: CfaRule::Register(7, 8), ra: RegisterRule::Unset, fp: RegisterRule::Unset };
        assert_eq!(rule(&unset, false), Rule::UNSUPPORTED);
    }

    #[test]
    fn expressions_that_compilers_and_linkers_emit() {
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let expected = Rule { cfa: cfa::PLT, cfa_off: 8, cfa_add: 11, ra_off: -8, ..Rule::NONE };
        assert_eq!(of(CfaRule::Expression(&plt), RegisterRule::Unset), expected);
        // breg7 16; deref; plus_uconst 8
        let deref = Rule { cfa: cfa::SP_DEREF, cfa_off: 16, cfa_add: 8, ra_off: -8, ..Rule::NONE };
        assert_eq!(of(CfaRule::Expression(&[0x77, 16, 0x06, 0x23, 8]), RegisterRule::Unset), deref);
        // breg7 16; deref; lit8; plus
        assert_eq!(of(CfaRule::Expression(&[0x77, 16, 0x06, 0x38, 0x22]), RegisterRule::Unset), deref);
        // Stack realignment: CFA = *(rbp - 8), rbp saved at rbp + 0.
        let realigned =
            Rule { cfa: cfa::FP_DEREF, cfa_off: -8, ra_off: -8, fp: fp::FP, fp_off: 0, ..Rule::NONE };
        assert_eq!(
            of(CfaRule::Expression(&[0x76, 0x78, 0x06]), RegisterRule::Expression(&[0x76, 0])),
            realigned
        );
        // breg7 16, and more operations without effect than any compiler writes.
        let long = |len: usize| [&[0x77, 16][..], &vec![0x96; len - 2]].concat();
        let longest = of(CfaRule::Expression(&long(MAX_EXPRESSION)), RegisterRule::Unset);
        assert_eq!(longest, sp_rule(16, None));
        let longer = of(CfaRule::Expression(&long(MAX_EXPRESSION + 1)), RegisterRule::Unset);
        assert_eq!(longer, Rule::UNSUPPORTED);
        // Two dereferences, a register twice, an unknown opcode, an empty stack.
        for odd in [&[0x77, 0, 0x06, 0x06][..], &[0x77, 0, 0x76, 0, 0x22], &[0xf0], &[], &[0x22], &[0x77]] {
            assert_eq!(of(CfaRule::Expression(odd), RegisterRule::Unset), Rule::UNSUPPORTED, "{odd:x?}");
        }
    }

    #[test]
    fn signal_trampoline_of_glibc() {
        let state = State {
            cfa: CfaRule::Expression(&[0x77, 0xa0, 0x01, 0x06]),
            ra: RegisterRule::Expression(&[0x77, 0xa8, 0x01]),
            fp: RegisterRule::Expression(&[0x77, 0xf8, 0x00]),
        };
        assert_eq!(rule(&state, true), SIGNAL_TRAMPOLINE);
    }
}
