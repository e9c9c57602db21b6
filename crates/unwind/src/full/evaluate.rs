//! Evaluates a row of call frame information: the caller's registers.

use gimli::BaseAddresses;
use gimli::CfaRule;
use gimli::Encoding;
use gimli::EvaluationResult;
use gimli::RegisterRule;
use gimli::UnitOffset;
use gimli::UnwindContext;
use gimli::UnwindContextStorage;
use gimli::UnwindExpression;
use gimli::UnwindSection;
use gimli::UnwindTableRow;
use gimli::Value;

use super::Frame;
use super::KnownRegisters;
use super::native::FRAME_POINTER;
use super::native::LINK_REGISTER;
use super::native::PC;
use super::native::PRESERVED;
use super::native::STACK_POINTER;
use super::native::code_address;
use super::record;
use super::record::Slice;
use crate::Memory;
use crate::StepError;
use crate::machine::Machine;

/// Limit of operations of one expression; those of compilers and C libraries have less than 20.
const MAX_OPERATIONS: u32 = 256;

/// Rules for all general and vector registers, and the same depth of `DW_CFA_remember_state` as for compact rows.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, RegisterRule<usize>); 34];
    type Stack = Box<[UnwindTableRow<usize, Self>; 33]>;
}

/// The caller of a frame, by the record at an offset in a section.
pub(super) fn step<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
    svma: u64,
    frame: &Frame,
    bias: u64,
    memory: &impl Memory,
) -> Result<Frame, StepError> {
    let no_row = StepError::NoRow(svma);
    let function = record::read(section, bases, offset).filter(|f| f.contains(svma)).ok_or(no_row)?;
    let encoding = function.cie().encoding();
    if encoding.address_size != 8 {
        return Err(no_row);
    }
    let mut context = UnwindContext::<usize, Storage>::new_in();
    let row = function.unwind_info_for_address(section, bases, &mut context, svma).map_err(|_| no_row)?;
    let exact = function.is_signal_trampoline();
    let ra_register = function.cie().return_address_register();
    Row { section, row, ra_register, encoding, frame, bias, memory }.caller(exact)
}

/// A row and the inputs of its rules.
struct Row<'r, S, M> {
    section: &'r S,
    row: &'r UnwindTableRow<usize, Storage>,
    ra_register: gimli::Register,
    encoding: Encoding,
    frame: &'r Frame,
    bias: u64,
    memory: &'r M,
}

impl<'a, S: UnwindSection<Slice<'a>>, M: Memory> Row<'_, S, M> {
    fn caller(&self, exact: bool) -> Result<Frame, StepError> {
        // Without a rule, the return address is still in the link register.
        let unsaved = LINK_REGISTER.map(|_| RegisterRule::SameValue);
        let ra_rule = self.row.register(self.ra_register).or(unsaved).ok_or(StepError::UnsupportedRule)?;
        if ra_rule == RegisterRule::Undefined {
            return Err(StepError::Root);
        }
        let cfa = self.cfa()?;
        let pc = self
            .value(&ra_rule, self.ra_register.0, cfa)?
            .map(code_address)
            .ok_or(StepError::UnsupportedRule)?;
        if pc == 0 {
            return Err(StepError::ZeroFrame);
        }
        let mut registers = KnownRegisters::unknown(pc);
        for number in 0..PC {
            let value = match self.row.register(gimli::Register(number.into())) {
                Some(RegisterRule::Expression(expression))
                    if number == FRAME_POINTER && self.is_given_back(&expression, cfa, pc) =>
                {
                    self.frame.fp()
                }
                // The call has overwritten the link register.
                _ if LINK_REGISTER == Some(number) && !exact => None,
                // A missing value affects only callers that need it.
                Some(rule) => self.value(&rule, number.into(), cfa).ok().flatten(),
                None if number == STACK_POINTER => Some(cfa),
                None if PRESERVED.contains(&number) => self.frame.registers.get(number),
                None => None,
            };
            registers.set(number, value);
        }
        if registers == self.frame.registers {
            return Err(StepError::NotAbove(cfa));
        }
        Ok(Frame { pc, registers, exact })
    }

    /// Whether a function that realigns its stack has already given rbp back, although the row says that rbp leads to the
    /// caller's: see [`crate::epilogue`]. Such a function pushes a copy of its return address
    /// before rbp, so rbp is its own if the copy lies above it.
    fn is_given_back(&self, expression: &UnwindExpression<usize>, cfa: u64, pc: u64) -> bool {
        let CfaRule::RegisterAndOffset { register, .. } = *self.row.cfa() else { return false };
        if Machine::NATIVE != Machine::X86_64 || register.0 == u16::from(FRAME_POINTER) {
            return false;
        }
        let Some(fp) = self.frame.fp() else { return false };
        let leads_to_saved = self.evaluate(expression, None) == Ok(fp);
        let is_own = fp < cfa && self.memory.read_u64(fp.wrapping_add(8)).map(code_address) == Some(pc);
        leads_to_saved && !is_own
    }

    fn cfa(&self) -> Result<u64, StepError> {
        match self.row.cfa() {
            // gimli returns this if no instruction defines the CFA.
            CfaRule::RegisterAndOffset { register: gimli::Register(0), offset: 0 } => {
                Err(StepError::UnsupportedRule)
            }
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.register(*register).ok_or(StepError::UnsupportedRule)?;
                let cfa = base.wrapping_add_signed(*offset);
                // If the return address is in a register, the frame may take no stack. By another register than the
                // stack pointer the CFA may lie anywhere: the function may run on a stack of its own.
                if register.0 == u16::from(STACK_POINTER) && *offset < 0 {
                    return Err(StepError::NotAbove(cfa));
                }
                Ok(cfa)
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    /// The value of a register by its rule. `None`: unknown.
    fn value(&self, rule: &RegisterRule<usize>, number: u16, cfa: u64) -> Result<Option<u64>, StepError> {
        Ok(match rule {
            RegisterRule::SameValue => self.register(gimli::Register(number)),
            RegisterRule::Register(register) => self.register(*register),
            RegisterRule::Offset(offset) => Some(self.read(cfa.wrapping_add_signed(*offset))?),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Expression(expression) => Some(self.read(self.evaluate(expression, Some(cfa))?)?),
            RegisterRule::ValExpression(expression) => Some(self.evaluate(expression, Some(cfa))?),
            _ => None,
        })
    }

    fn register(&self, register: gimli::Register) -> Option<u64> {
        self.frame.registers.get(u8::try_from(register.0).ok()?)
    }

    fn read(&self, avma: u64) -> Result<u64, StepError> {
        self.memory.read_u64(avma).ok_or(StepError::Fault(avma))
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Result<u64, StepError> {
        const GENERIC: UnitOffset<usize> = UnitOffset(0);
        let unsupported = |_| StepError::UnsupportedRule;
        let mut evaluation = expression.get(self.section).map_err(unsupported)?.evaluation(self.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(value) = initial {
            evaluation.set_initial_value(value);
        }
        let mut result = evaluation.evaluate().map_err(unsupported)?;
        loop {
            result = match result {
                EvaluationResult::Complete => {
                    let value = evaluation.value_result().ok_or(StepError::UnsupportedRule)?;
                    return value.to_u64(u64::MAX).map_err(unsupported);
                }
                EvaluationResult::RequiresMemory { address, size, space: None, base_type: GENERIC } => {
                    let word = self.read(address)?;
                    let unused_bits = 64 - 8 * u32::from(size.clamp(1, 8));
                    evaluation.resume_with_memory(Value::Generic(word << unused_bits >> unused_bits))
                }
                EvaluationResult::RequiresRegister { register, base_type: GENERIC } => {
                    let value = self.register(register).ok_or(StepError::UnsupportedRule)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresRelocatedAddress(svma) => {
                    evaluation.resume_with_relocated_address(svma.wrapping_add(self.bias))
                }
                _ => return Err(StepError::UnsupportedRule),
            }
            .map_err(unsupported)?;
        }
    }
}
