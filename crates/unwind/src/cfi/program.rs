//! The interpreter of call frame instructions.

use super::CfaRule;
use super::RegisterRule;
use super::State;
use crate::machine::Machine;
use crate::reader::Reader;

/// Limit of nested `DW_CFA_remember_state`; compilers use 1.
const MAX_REMEMBERED: usize = 32;

/// The encoding of instructions, from a CIE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub machine: Machine,
    pub code_align: u64,
    pub data_align: i64,
    pub ra_register: u64,
    /// Addresses are encoded as plain 8 bytes.
    pub absolute_addresses: bool,
}

/// Runs the instructions of a CIE. `None`: malformed, or they advance the location.
pub(crate) fn initial_state<'a>(factors: &Factors, instructions: &'a [u8]) -> Option<State<'a>> {
    let mut program = Program::new(factors, instructions, State::default(), 0);
    match program.next_row()? {
        Step::End => Some(program.state),
        Step::Advance(_) => None,
    }
}

/// The end of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The row holds up to this address, where the next one starts.
    Advance(u64),
    /// The row holds up to the end of the function.
    End,
}

/// A running program; [`Program::state`] is the current row.
#[derive(Debug)]
pub(crate) struct Program<'a, 'f> {
    pub state: State<'a>,
    r: Reader<'a>,
    factors: &'f Factors,
    initial: State<'a>,
    remembered: Vec<State<'a>>,
    location: u64,
}

impl<'a, 'f> Program<'a, 'f> {
    pub(crate) fn new(
        factors: &'f Factors,
        instructions: &'a [u8],
        initial: State<'a>,
        location: u64,
    ) -> Self {
        let r = Reader::at(instructions, 0);
        Self { state: initial, r, factors, initial, remembered: Vec::new(), location }
    }

    /// Runs until the location advances. `None`: malformed.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Option<Step> {
        while !self.r.is_empty() {
            let opcode = self.r.u8()?;
            let low = opcode & 0x3f;
            match opcode & 0xc0 {
                0x40 => return self.advance(u64::from(low)),
                0x80 => {
                    let offset = self.factored()?;
                    self.set(u64::from(low), RegisterRule::Offset(offset));
                }
                0xc0 => self.restore(u64::from(low)),
                _ => {
                    if let Some(step) = self.extended(low)? {
                        return Some(step);
                    }
                }
            }
        }
        Some(Step::End)
    }

    /// Opcodes without an operand in their low bits.
    fn extended(&mut self, opcode: u8) -> Option<Option<Step>> {
        match opcode {
            0x00 => {}
            0x01 => {
                // set_loc. No compiler emits it, and its relative encodings are not supported.
                if !self.factors.absolute_addresses {
                    return None;
                }
                let target = self.r.u64()?;
                return self.advance_to(target).map(Some);
            }
            0x02 => {
                let delta = u64::from(self.r.u8()?);
                return self.advance(delta).map(Some);
            }
            0x03 => {
                let delta = u64::from(self.r.u16()?);
                return self.advance(delta).map(Some);
            }
            0x04 => {
                let delta = u64::from(self.r.u32()?);
                return self.advance(delta).map(Some);
            }
            0x05 => {
                let (register, offset) = (self.r.uleb()?, self.factored()?);
                self.set(register, RegisterRule::Offset(offset));
            }
            0x06 => {
                let register = self.r.uleb()?;
                self.restore(register);
            }
            0x07 => self.set_next(RegisterRule::Undefined)?,
            0x08 => self.set_next(RegisterRule::SameValue)?,
            0x09 => {
                let (register, from) = (self.r.uleb()?, self.r.uleb()?);
                self.set(register, RegisterRule::Register(from));
            }
            0x0a => {
                if self.remembered.len() == MAX_REMEMBERED {
                    return None;
                }
                self.remembered.push(self.state);
            }
            0x0b => self.state = self.remembered.pop()?,
            0x0c => {
                let (register, offset) = (self.r.uleb()?, i64::try_from(self.r.uleb()?).ok()?);
                self.state.cfa = CfaRule::Register(register, offset);
            }
            0x0d => {
                let register = self.r.uleb()?;
                let CfaRule::Register(_, offset) = self.state.cfa else { return None };
                self.state.cfa = CfaRule::Register(register, offset);
            }
            0x0e => {
                let offset = i64::try_from(self.r.uleb()?).ok()?;
                let CfaRule::Register(register, _) = self.state.cfa else { return None };
                self.state.cfa = CfaRule::Register(register, offset);
            }
            0x0f => self.state.cfa = CfaRule::Expression(self.block()?),
            0x10 => {
                let (register, block) = (self.r.uleb()?, self.block()?);
                self.set(register, RegisterRule::Expression(block));
            }
            0x11 => {
                let (register, offset) = (self.r.uleb()?, self.factored_signed()?);
                self.set(register, RegisterRule::Offset(offset));
            }
            0x12 => {
                let (register, offset) = (self.r.uleb()?, self.factored_signed()?);
                self.state.cfa = CfaRule::Register(register, offset);
            }
            0x13 => {
                let offset = self.factored_signed()?;
                let CfaRule::Register(register, _) = self.state.cfa else { return None };
                self.state.cfa = CfaRule::Register(register, offset);
            }
            0x14 => {
                let (register, offset) = (self.r.uleb()?, self.factored()?);
                self.set(register, RegisterRule::ValOffset(offset));
            }
            0x15 => {
                let (register, offset) = (self.r.uleb()?, self.factored_signed()?);
                self.set(register, RegisterRule::ValOffset(offset));
            }
            0x16 => {
                let (register, block) = (self.r.uleb()?, self.block()?);
                self.set(register, RegisterRule::ValExpression(block));
            }
            // AARCH64_negate_ra_state, AARCH64_negate_ra_state_with_pc: whether the return address is signed.
            0x2c | 0x2d if self.factors.machine == Machine::Aarch64 => {}
            // GNU_args_size: bytes of pushed arguments, which only exception handlers use.
            0x2e => _ = self.r.uleb()?,
            // GNU_negative_offset_extended
            0x2f => {
                let (register, offset) = (self.r.uleb()?, self.factored()?);
                self.set(register, RegisterRule::Offset(offset.checked_neg()?));
            }
            _ => return None,
        }
        Some(None)
    }

    fn advance(&mut self, delta: u64) -> Option<Step> {
        let delta = delta.checked_mul(self.factors.code_align)?;
        self.advance_to(self.location.checked_add(delta)?)
    }

    fn advance_to(&mut self, location: u64) -> Option<Step> {
        if location < self.location {
            return None;
        }
        self.location = location;
        Some(Step::Advance(location))
    }

    fn set(&mut self, register: u64, rule: RegisterRule<'a>) {
        if register == self.factors.machine.frame_pointer() {
            self.state.fp = rule;
        } else if register == self.factors.ra_register {
            self.state.ra = rule;
        }
    }

    fn set_next(&mut self, rule: RegisterRule<'a>) -> Option<()> {
        let register = self.r.uleb()?;
        self.set(register, rule);
        Some(())
    }

    fn restore(&mut self, register: u64) {
        if register == self.factors.machine.frame_pointer() {
            self.state.fp = self.initial.fp;
        } else if register == self.factors.ra_register {
            self.state.ra = self.initial.ra;
        }
    }

    fn factored(&mut self) -> Option<i64> {
        i64::try_from(self.r.uleb()?).ok()?.checked_mul(self.factors.data_align)
    }

    fn factored_signed(&mut self) -> Option<i64> {
        self.r.sleb()?.checked_mul(self.factors.data_align)
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let len = self.r.uleb()?;
        self.r.bytes(len)
    }
}
