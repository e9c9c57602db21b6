//! The supported machines and their differences.

use elf::constants::{EM_AARCH64, EM_X86_64};

use crate::aarch64;
use crate::abi::Rule;
use crate::abi::SIGNAL;
use crate::cfi::CfaRule;
use crate::cfi::RegisterRule;
use crate::cfi::State;
use crate::x86_64;

/// A machine, by the `e_machine` of ELF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// The machine of this program.
    pub(crate) const NATIVE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    pub(crate) fn of(e_machine: elf::constants::Machine) -> Option<Self> {
        match e_machine {
            EM_X86_64 => Some(Self::X86_64),
            EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The `e_machine` number.
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::X86_64 => EM_X86_64.0,
            Self::Aarch64 => EM_AARCH64.0,
        }
    }

    /// DWARF number of the frame pointer.
    pub(crate) fn frame_pointer(self) -> u64 {
        match self {
            Self::X86_64 => x86_64::NUMBERS.frame_pointer,
            Self::Aarch64 => aarch64::NUMBERS.frame_pointer,
        }
    }

    /// The rule for the CFA at the first instruction of a function that was called.
    pub(crate) fn cfa_at_entry(self) -> CfaRule<'static> {
        match self {
            Self::X86_64 => CfaRule::Register(x86_64::NUMBERS.stack_pointer, 8),
            Self::Aarch64 => CfaRule::Register(aarch64::NUMBERS.stack_pointer, 0),
        }
    }

    /// Translates one row. A row that cannot be expressed is [`Rule::UNSUPPORTED`], never an approximation.
    #[inline]
    pub(crate) fn rule(self, state: &State<'_>, signal: bool) -> Rule {
        if state.ra == RegisterRule::Undefined {
            return Rule::ROOT;
        }
        let rule = match self {
            Self::X86_64 => x86_64::translate(state),
            Self::Aarch64 => aarch64::translate(state),
        };
        let flags = if signal { SIGNAL } else { 0 };
        rule.map_or(Rule::UNSUPPORTED, |rule| Rule { flags: rule.flags | flags, ..rule })
    }
}
