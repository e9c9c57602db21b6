//! The specifics of aarch64: DWARF register numbers, the translation of call frame information into rules, and, in
//! [`code`], the code of linkers, C libraries and the kernel without such information.
//!
//! At entry the return address is in the link register (x30). A function that needs a frame saves it beside the frame
//! pointer (x29). Return addresses may be signed; the walker removes the signature.

pub(crate) mod code;
mod leaf;

use crate::abi::Rule;
use crate::abi::cfa;
use crate::abi::ra;
use crate::cfi::RegisterRule;
use crate::cfi::State;
use crate::expression::Numbers;
use crate::translate;

/// x29 and sp (AADWARF64, table 1).
pub(crate) const NUMBERS: Numbers = Numbers { frame_pointer: 29, stack_pointer: 31, last: 30 };
/// x30.
const LINK_REGISTER: i16 = 30;

/// Translates one row with a caller. `None`: it cannot be expressed.
pub(crate) fn translate(state: &State<'_>) -> Option<Rule> {
    let mut rule = translate::canonical_frame_address(&state.cfa, &NUMBERS)?;
    let (kind, off) = match state.ra {
        RegisterRule::Unset | RegisterRule::SameValue => (ra::REG, LINK_REGISTER.into()),
        _ => translate::return_address(&state.ra, &NUMBERS)?,
    };
    (rule.ra, rule.ra_off) = match i16::try_from(off) {
        Ok(off) => (kind, off),
        // The return address is at the low end of the frame, which may be large.
        Err(_) => {
            let from_base = i16::try_from(off.checked_add(rule.cfa_off.into())?).ok()?;
            match (kind, rule.cfa) {
                (ra::CFA, cfa::SP) => (ra::SP, from_base),
                (ra::CFA, cfa::FP) => (ra::FP, from_base),
                _ => return None,
            }
        }
    };
    // Data above the CFA is not part of the frame: in longjmp the CFA is that of the buffer. If neither value is on the
    // stack, as in longjmp too, the stack pointer is elsewhere.
    if kind == ra::CFA && off >= 0 || rule.ra == ra::REG && rule.cfa != cfa::SP {
        return None;
    }
    (rule.fp, rule.fp_off) = translate::frame_pointer(&state.fp, &NUMBERS);
    Some(rule)
}

/// `CFA = sp`, return address in the link register: at the first instruction of a function, and in functions without
/// calls.
pub(crate) const LEAF: Rule = Rule { cfa: cfa::SP, ra: ra::REG, ra_off: LINK_REGISTER, ..Rule::NONE };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::fp;
    use crate::cfi::CfaRule;
    use crate::machine::Machine;

    fn rule(state: &State<'_>, signal: bool) -> Rule {
        Machine::Aarch64.rule(state, signal)
    }

    fn of(cfa: CfaRule<'_>, ra: RegisterRule<'_>, fp: RegisterRule<'_>) -> Rule {
        rule(&State { cfa, ra, fp }, false)
    }

    #[test]
    fn rows_of_a_function_from_its_first_instruction() {
        let unset = RegisterRule::Unset;
        assert_eq!(of(CfaRule::Register(31, 0), unset, unset), LEAF);
        // stp x29, x30, [sp, #-48]!
        let saved = Rule {
            cfa: cfa::SP,
            cfa_off: 48,
            ra: ra::CFA,
            ra_off: -40,
            fp: fp::CFA,
            fp_off: -48,
            ..Rule::NONE
        };
        let (ra, fp) = (RegisterRule::Offset(-40), RegisterRule::Offset(-48));
        assert_eq!(of(CfaRule::Register(31, 48), ra, fp), saved);
        assert_eq!(of(CfaRule::Register(29, 48), ra, fp), Rule { cfa: cfa::FP, ..saved });
        assert_eq!(of(CfaRule::Register(31, 0), RegisterRule::Undefined, unset), Rule::ROOT);
        assert_eq!(of(CfaRule::Register(46, 0), unset, unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Unset, unset, unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Register(0, 0), RegisterRule::Offset(88), unset), Rule::UNSUPPORTED);
        assert_eq!(of(CfaRule::Register(29, 0), unset, unset), Rule::UNSUPPORTED);
    }

    #[test]
    fn a_return_address_at_the_end_of_a_large_frame() {
        let (ra, fp) = (RegisterRule::Offset(-79_992), RegisterRule::Offset(-80_000));
        let rule = of(CfaRule::Register(31, 80_000), ra, fp);
        assert_eq!((rule.cfa_off, rule.ra, rule.ra_off), (80_000, ra::SP, 8));
        assert_eq!((rule.fp, rule.fp_off), (fp::CFA, -80_000));
        let rule = of(CfaRule::Register(29, 80_000), ra, fp);
        assert_eq!((rule.cfa, rule.ra, rule.ra_off), (cfa::FP, ra::FP, 8));
        assert_eq!(of(CfaRule::Register(19, 80_000), ra, fp), Rule::UNSUPPORTED);
    }
}
