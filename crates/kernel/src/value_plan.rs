//! Where the programs find the value of an occurrence: `struct value_plan` of `bpf/abi/value.h`.

use crate::abi::skeleton::types;

/// Loads that lead from a register to a value.
pub const MAX_VALUE_STEPS: usize = types::value_step_limit::MAX_VALUE_STEPS.0 as usize;

/// Where the value of an occurrence is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePlan {
    /// Where to begin.
    pub from: ValueFrom,
    /// The bytes of the value in memory: 1 to 8.
    pub size: u8,
    /// Its lowest bit in these bytes, and its bits.
    pub bits: (u8, u8),
    /// Whether the highest of its bits is a sign.
    pub signed: bool,
}

/// Where the programs begin to look for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFrom {
    /// This many bytes behind the begin of the record of a tracepoint.
    Record(u32),
    /// A register at a probe.
    Register {
        /// The register.
        register: ProbeRegister,
        /// What is added before each load, the first one first; without any the register holds the value. At most [`MAX_VALUE_STEPS`].
        offsets: Vec<i64>,
        /// The loads are of memory of the kernel.
        in_kernel: bool,
    },
    /// A number.
    Constant(i64),
}

/// A register as the kernel saves it: `struct pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRegister {
    at: u32,
}

impl ProbeRegister {
    /// The register with this name, as probes of the kernel name it: `di`, `sp`; on aarch64 `x0`. `None`: there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let at = NAMES.iter().position(|names| names.split(' ').any(|known| known == name))?;
        Some(Self { at: 8 * at as u32 })
    }

    /// The one with the result of a function that returns.
    #[must_use]
    pub fn result() -> Self {
        Self { at: 8 * RESULT }
    }
}

/// The registers in the order of `struct pt_regs`, with all their names.
#[cfg(target_arch = "x86_64")]
const NAMES: [&str; 21] = [
    "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di",
    "orig_ax", "ip", "cs", "flags", "sp", "ss",
];
#[cfg(target_arch = "x86_64")]
const RESULT: u32 = 10;

#[cfg(not(target_arch = "x86_64"))]
const NAMES: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29",
    "x30 lr", "sp", "pc",
];
#[cfg(not(target_arch = "x86_64"))]
const RESULT: u32 = 0;

impl ValuePlan {
    /// An integer of so many bytes.
    #[must_use]
    pub fn integer(from: ValueFrom, size: u8, signed: bool) -> Self {
        Self { from, size, bits: (0, size.saturating_mul(8)), signed }
    }

    /// As the programs read it. `None`: they can follow no such plan.
    pub(crate) fn encode(&self) -> Option<types::value_plan> {
        let (lowest, bits) = (u32::from(self.bits.0), u32::from(self.bits.1));
        let is_sound = matches!(self.size, 1..=8) && bits >= 1 && lowest + bits <= 8 * u32::from(self.size);
        let mut plan = types::value_plan {
            size: u32::from(self.size),
            shift_left: 64u32.checked_sub(lowest + bits)?,
            shift_right: 64 - bits.min(64),
            has_sign: self.signed.into(),
            ..types::value_plan::default()
        };
        match &self.from {
            ValueFrom::Record(at) => {
                plan.base = types::value_base::VALUE_RECORD.0;
                plan.at = *at;
            }
            ValueFrom::Register { register, offsets, in_kernel } => {
                plan.base = types::value_base::VALUE_REGISTER.0;
                plan.at = register.at;
                plan.steps = offsets.len() as u32;
                plan.in_kernel = (*in_kernel).into();
                plan.offsets.get_mut(..offsets.len())?.copy_from_slice(offsets);
            }
            ValueFrom::Constant(number) => {
                plan.base = types::value_base::VALUE_CONSTANT.0;
                plan.offsets[0] = *number;
            }
        }
        is_sound.then_some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_lie_where_the_kernel_saves_them() {
        let at = |name| ProbeRegister::named(name).map(|register| register.at);
        assert_eq!((at("rdi"), at(""), at("di lr")), (None, None, None));
        if cfg!(target_arch = "x86_64") {
            assert_eq!((at("r15"), at("di"), at("sp"), at("ss")), (Some(0), Some(112), Some(152), Some(160)));
            assert_eq!(Some(ProbeRegister::result()), ProbeRegister::named("ax"));
        } else {
            assert_eq!((at("x0"), at("lr"), at("sp"), at("pc")), (Some(0), Some(240), Some(248), Some(256)));
        }
    }

    #[test]
    fn bits_are_shifted_to_the_top_and_back() {
        let shifts = |size, bits| {
            let plan = ValuePlan { from: ValueFrom::Record(8), size, bits, signed: false };
            plan.encode().map(|plan| (plan.shift_left, plan.shift_right))
        };
        assert_eq!(shifts(4, (0, 32)), Some((32, 32)));
        assert_eq!(shifts(8, (0, 64)), Some((0, 0)));
        assert_eq!(shifts(4, (3, 5)), Some((56, 59)));
        for (size, bits) in [(4, (30, 3)), (0, (0, 1)), (9, (0, 8)), (4, (0, 0)), (8, (255, 255))] {
            assert_eq!(shifts(size, bits), None, "{size} {bits:?}");
        }
    }

    #[test]
    fn a_plan_with_too_many_loads_is_refused() {
        let plan = |loads: usize| {
            let (register, offsets) = (ProbeRegister::result(), vec![-8; loads]);
            ValuePlan::integer(ValueFrom::Register { register, offsets, in_kernel: true }, 4, true).encode()
        };
        let longest = plan(MAX_VALUE_STEPS).unwrap();
        assert_eq!((longest.steps, longest.offsets[3], longest.has_sign, longest.in_kernel), (4, -8, 1, 1));
        assert!(plan(MAX_VALUE_STEPS + 1).is_none());
    }
}
