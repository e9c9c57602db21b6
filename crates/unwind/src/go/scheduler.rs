//! Where Go's scheduler keeps a goroutine that left its stack, read from the machine code of the runtime.
//!
//! The functions that leave a goroutine's stack store its pc, sp and rbp in the structure of the goroutine (`g`), and load
//! sp from that of the thread's own stack (`g0`); both are reached from the structure of the thread (`m`). The offsets of
//! these fields differ between versions of Go. The code contains them. Code that does not look as expected gives no
//! offsets.

use std::collections::HashMap;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use super::resume;
use crate::abi::REGISTER_MASK;
use crate::abi::Rule;
use crate::abi::cfa;
use crate::instructions;

/// Longer functions are not looked at.
const MAX_CODE: usize = 4096;
/// The last general register is R15.
const REGISTERS: usize = 16;

/// What a register holds, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    Number(i64),
    /// The value of sp at entry plus this.
    Sp(i64),
    ReturnAddress,
    /// The value of rbp at entry.
    FramePointer,
    /// The current `g`.
    G,
    /// The field of the current `g` at this offset: `m`, and the end of the stack.
    OfG(i64),
    /// The field of `m`, which is at the first offset of `g`: `g0`, and the goroutine that runs (`curg`).
    OfM(i64, i64),
    /// The field at the last offset of that `g`.
    OfOther(i64, i64, i64),
    /// The field of `g` minus the value of sp at entry.
    Distance(i64),
}

/// The current `g`, `m` and the saved registers, by the offsets that one function shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trace {
    /// Offset of the current `g` from the thread pointer.
    tls: Vec<i64>,
    /// What is stored in fields of the current `g`.
    stored: Vec<(i64, Value)>,
    /// Loads of sp: offset of `m` in `g`, of a `g` in `m`, and of the value there.
    loads: Vec<(i64, i64, i64)>,
    /// What is stored on another stack: the end of the instruction, the offset from sp, the value.
    other_stack: Vec<(usize, i64, Value)>,
}

/// The offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    tls: i32,
    m: i16,
    curg: i16,
    sp: u16,
    fp: u16,
    /// What a call from C into Go leaves on the thread's stack: words from the saved sp to the CFA. 0: not known.
    callback: u8,
}

impl Offsets {
    /// From the code of `runtime.systemstack`, `runtime.mcall` and `runtime.morestack`.
    pub(super) fn read(systemstack: &[u8], mcall: &[u8], morestack: &[u8]) -> Option<Self> {
        let [system, leave, grow] = [systemstack, mcall, morestack].map(Trace::of);
        let &[(m, 0, sp)] = &grow.loads[..] else { return None };
        if leave.loads != grow.loads {
            return None;
        }
        let curg = match system.loads[..] {
            [first, (m_again, curg, sp_again)] if first == (m, 0, sp) && (m_again, sp_again) == (m, sp) => {
                curg
            }
            _ => return None,
        };
        let fp = grow.offset_of(Value::FramePointer)?;
        for trace in [&leave, &grow] {
            let saved = [Value::Sp(8), Value::ReturnAddress, Value::FramePointer].map(|v| trace.offset_of(v));
            if saved != [Some(sp), sp.checked_add(8), Some(fp)] {
                return None;
            }
        }
        let tls = *grow.tls.first()?;
        if ![&system, &leave, &grow].iter().all(|trace| trace.tls.iter().all(|other| *other == tls)) {
            return None;
        }
        let is_word = |offset: i64| offset > 0 && offset % 8 == 0;
        if ![m, curg, sp, fp].into_iter().all(is_word) {
            return None;
        }
        Some(Self {
            tls: i32::try_from(tls).ok()?,
            m: i16::try_from(m).ok()?,
            curg: i16::try_from(curg).ok()?,
            sp: u16::try_from(sp).ok()?,
            fp: u16::try_from(fp).ok().filter(|fp| *fp < 1 << 15)?,
            callback: 0,
        })
    }

    /// With what the code of `runtime.cgocallback` tells.
    pub(super) fn with_callback(self, cgocallback: &[u8]) -> Self {
        let words = resume::words_above_saved_sp(cgocallback, self.sp);
        Self { callback: words.filter(|words| *words <= REGISTER_MASK).unwrap_or_default(), ..self }
    }

    /// Whether this is the code of `gogo`, which loads the registers of a goroutine.
    pub(super) fn are_loaded_by(&self, gogo: &[u8]) -> bool {
        resume::resumes(gogo, u64::from(self.fp.saturating_sub(self.sp)))
    }

    /// A rule of one of the kinds that read these structures.
    pub(super) fn rule(&self, kind: u8) -> Rule {
        Rule {
            cfa: kind,
            cfa_off: self.tls,
            ra_off: self.m,
            cfa_add: self.curg,
            fp_off: i32::from(self.sp) | i32::from(self.fp) << 16,
            flags: if matches!(kind, cfa::GO_GROW | cfa::GO_LEAVE) { self.callback } else { 0 },
            ..Rule::NONE
        }
    }
}

/// The frame that `runtime.asmcgocall` without a frame pointer builds on the thread's stack: `g`, and the distance of the
/// goroutine's sp from the end of its stack. Without a switch there is no `g`, and sp itself in place of the distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallOfC {
    rule: Rule,
    /// Ends of the instructions that complete it, one on each path.
    complete_at: Vec<usize>,
}

impl CallOfC {
    pub(super) fn read(code: &[u8]) -> Option<Self> {
        let trace = Trace::of(code);
        let [
            (_, g_at, Value::G),
            (first, at, Value::Distance(end)),
            (_, no_g_at, Value::Number(0)),
            (second, sp_at, Value::Sp(0)),
        ] = trace.other_stack[..]
        else {
            return None;
        };
        if (g_at, at) != (no_g_at, sp_at) || end <= 0 {
            return None;
        }
        let rule = Rule {
            cfa: cfa::GO_CALL_OF_C,
            cfa_off: i32::try_from(g_at).ok()?,
            ra_off: i16::try_from(at).ok()?,
            cfa_add: i16::try_from(end).ok()?,
            ..Rule::NONE
        };
        Some(Self { rule, complete_at: vec![first, second] })
    }

    /// The rule of an instruction on the thread's stack. `run` is the range of such instructions around it.
    pub(super) fn rule(&self, at: usize, run: &std::ops::Range<usize>) -> Rule {
        let complete = self.complete_at.iter().any(|from| run.contains(from) && at >= *from);
        if complete { self.rule } else { Rule::SWITCH }
    }
}

impl Trace {
    /// Follows the instructions in the order of their addresses. Calls by name leave the registers as they are: of functions
    /// that save registers only, or do not return.
    fn of(code: &[u8]) -> Self {
        let mut trace = Self::default();
        let mut registers = [Value::Unknown; REGISTERS];
        registers[Register::RSP.number()] = Value::Sp(0);
        registers[Register::RBP.number()] = Value::FramePointer;
        // Go's internal calling convention.
        registers[Register::R14.number()] = Value::G;
        let mut frame_pointer_saved = false;
        let mut info = InstructionInfoFactory::new();
        let mut decoder = Decoder::with_ip(64, &code[..code.len().min(MAX_CODE)], 0, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut at_targets = HashMap::new();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                break;
            }
            if let Some(known) = at_targets.get(&instruction.ip()) {
                registers = *known;
            }
            let value = match instruction.mnemonic() {
                Mnemonic::Push => {
                    if instruction.op0_register() == Register::RBP
                        && registers[Register::RSP.number()] == Value::Sp(0)
                    {
                        frame_pointer_saved = true;
                    }
                    moved(&mut registers, -8);
                    continue;
                }
                Mnemonic::Pop => {
                    moved(&mut registers, 8);
                    Value::Unknown
                }
                Mnemonic::Mov => trace.moved_value(&instruction, &registers, frame_pointer_saved),
                Mnemonic::Lea => match value_of(&registers, instruction.memory_base()) {
                    Value::Sp(at) if instruction.memory_index() == Register::None => {
                        Value::Sp(at.wrapping_add(displacement(&instruction)))
                    }
                    _ => Value::Unknown,
                },
                Mnemonic::Sub if instruction.op1_kind() == OpKind::Register => {
                    match [0, 1].map(|n| value_of(&registers, instruction.op_register(n))) {
                        [Value::OfG(end), Value::Sp(0)] => Value::Distance(end),
                        _ => Value::Unknown,
                    }
                }
                _ => Value::Unknown,
            };
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::IndirectCall => registers = [Value::Unknown; REGISTERS],
                FlowControl::ConditionalBranch => {
                    at_targets.entry(instruction.near_branch_target()).or_insert(registers);
                    continue;
                }
                _ => continue,
            }
            if let (Value::OfOther(m, other, sp), Register::RSP) = (value, instruction.op0_register()) {
                trace.loads.push((m, other, sp));
            }
            for (number, register) in registers.iter_mut().enumerate() {
                if instructions::writes(&mut info, &instruction, Register::RAX + number as u32) {
                    *register = value;
                }
            }
        }
        trace
    }

    /// The value that a move moves. Notes what the move tells of the structures.
    fn moved_value(
        &mut self,
        instruction: &Instruction,
        registers: &[Value; REGISTERS],
        frame_pointer_saved: bool,
    ) -> Value {
        let base = || value_of(registers, instruction.memory_base());
        let offset = displacement(instruction);
        let of_thread = instruction.segment_prefix() == Register::FS;
        let thread_offset = || match (instruction.memory_base(), base()) {
            (Register::None, _) => Some(offset),
            (_, Value::Number(number)) => number.checked_add(offset),
            _ => None,
        };
        let is_plain = instruction.memory_index() == Register::None;
        match [instruction.op0_kind(), instruction.op1_kind()] {
            [OpKind::Register, OpKind::Register] => value_of(registers, instruction.op1_register()),
            [OpKind::Register, OpKind::Memory] if of_thread && is_plain => match thread_offset() {
                Some(tls) => {
                    self.tls.push(tls);
                    Value::G
                }
                None => Value::Unknown,
            },
            [OpKind::Register, OpKind::Memory] if is_plain => match base() {
                Value::Sp(at) if at.wrapping_add(offset) == 0 => Value::ReturnAddress,
                Value::Sp(at) if at.wrapping_add(offset) == -8 && frame_pointer_saved => Value::FramePointer,
                Value::G => Value::OfG(offset),
                Value::OfG(m) => Value::OfM(m, offset),
                Value::OfM(m, other) => Value::OfOther(m, other, offset),
                _ => Value::Unknown,
            },
            [OpKind::Register, _] => Value::Number(instruction.immediate(1) as i64),
            [OpKind::Memory, kind] => {
                let value = match kind {
                    OpKind::Register => value_of(registers, instruction.op1_register()),
                    _ => Value::Number(instruction.immediate(1) as i64),
                };
                match base() {
                    _ if of_thread => self.tls.extend(thread_offset()),
                    Value::G if is_plain => self.stored.push((offset, value)),
                    Value::Unknown
                        if is_plain
                            && instruction.memory_base() == Register::RSP
                            && value != Value::Unknown =>
                    {
                        self.other_stack.push((instruction.next_ip() as usize, offset, value));
                    }
                    _ => {}
                }
                Value::Unknown
            }
            _ => Value::Unknown,
        }
    }

    /// The field of `g` in which this value is stored, if there is one such field.
    fn offset_of(&self, value: Value) -> Option<i64> {
        let mut fields = self.stored.iter().filter(|(_, stored)| *stored == value).map(|(offset, _)| *offset);
        let first = fields.next()?;
        fields.all(|other| other == first).then_some(first)
    }
}

fn moved(registers: &mut [Value; REGISTERS], by: i64) {
    if let Value::Sp(at) = &mut registers[Register::RSP.number()] {
        *at = at.wrapping_add(by);
    }
}

fn value_of(registers: &[Value; REGISTERS], register: Register) -> Value {
    if register.is_gpr64() { registers[register.number()] } else { Value::Unknown }
}

fn displacement(instruction: &Instruction) -> i64 {
    instruction.memory_displacement64() as i64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Machine code in hexadecimal digits.
    pub(in super::super) fn code(digits: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(digit).collect()
    }

    fn read([systemstack, mcall, morestack]: [&str; 3]) -> Option<Offsets> {
        Offsets::read(&code(systemstack), &code(mcall), &code(morestack))
    }

    /// `systemstack`, `mcall` and `morestack` of Go 1.20.14.
    const GO_1_20: [&str; 3] = [
        "488b7c240864488b0425f8ffffff488b5830483b4350745b488b134839d07453483b83c00000007552e8d2f1ffff6448\
         891425f8ffffff4989d6488b5a384889dc4889fa488b3fffd764488b0425f8ffffff488b5830488b83c0000000644889\
         0425f8ffffff488b603848c7403800000000c34889fa488b3fffe7488d05be480000ffd0cd03",
        "4889c2488b1c2449895e40488d5c240849895e3849896e68498b5e30488b334c39f67505e9774700004c89f04989f664\
         4c893425f8ffffff498b6638504c8b2241ffd458e997470000c3",
        "64488b1c25f8ffffff488b5b30488b336448393425f8ffffff750ae800470000e87b1e0000488b73506448393425f8ff\
         ffff750ae807470000e8621e0000488b44240848894310488d4424104889430864488b3425f8ffffff48897318488b04\
         2448894640488d4424084889463848896e6848895650488b1b6448891c25f8ffffff488b6338e8d5470000e8101e0000\
         c3",
    ];
    /// `systemstack`, `mcall` and `morestack` of Go 1.26.8.
    const GO_1_26: [&str; 3] = [
        "554889e5488b7c241064488b0425f8ffffff488b5830483b43487465488b134839d0745d483b83b8000000755de8aef2\
         ffff6448891425f8ffffff4989d6488b62384889fa488b3fffd764488b0425f8ffffff488b5830488b83b80000006448\
         890425f8ffffff488b6038488b686048c740380000000048c74060000000005dc34889fa488b3f5dffe7488d054f3e00\
         00ffd0cd03",
        "554889e54889c24889e3488b5b0849895e40488d5c241049895e38488b5d0049895e60498b5e30488b334c39f67505e9\
         0c3d00004c89f04989f6644c893425f8ffffff498b663848c7c500000000504c8b2241ffd49058e9243d00005dc3",
        "64488b3c25f8ffffff488b5f30488b042448894740488d4424084889473848896f6048895750488b334839f7750ae84d\
         3c0000e828180000488b73484839f7750ae85a3c0000e815180000488b44240848894310488d4424104889430848897b\
         18488b1b6448891c25f8ffffff488b633848c7c500000000e8433d0000e8de170000c3",
    ];
    /// `systemstack` in a position-independent executable.
    const PIE: &str = "488b7c240848c7c1f8ffffff64488b01488b5830483b43507453488b134839d0744b483b83c0000000754ae8d0f1ffff\
         644889114989d6488b5a384889dc4889fa488b3fffd748c7c1f8ffffff64488b01488b5830488b83c000000064488901\
         488b603848c7403800000000c34889fa488b3fffe7488d0544490000ffd0cd03";
    const ASMCGOCALL_1_20: &str = "488b442408488b5c24104889e264488b3c25f8ffffff4883ff0074674c8b4730498b70504839f7745a498b304839f774\
         52e86ad3ffff6448893425f8ffffff488b66384883ec404883e4f048897c2430488b7f084829d748897c24284889df48\
         89d9ffd0488b7c2430488b7708482b7424286448893c25f8ffffff4889f489442418c34883ec404883e4f048c7442430\
         0000000048895424284889df4889d9ffd0488b7424284889f489442418c3";

    #[test]
    fn offsets_of_versions() {
        let of_1_20 = Offsets { tls: -8, m: 0x30, curg: 0xc0, sp: 0x38, fp: 0x68, callback: 0 };
        assert_eq!(read(GO_1_20), Some(of_1_20));
        assert_eq!(read(GO_1_26), Some(Offsets { curg: 0xb8, fp: 0x60, ..of_1_20 }));
        assert_eq!(read([PIE, GO_1_20[1], GO_1_20[2]]), Some(of_1_20));
        let rule = of_1_20.rule(cfa::GO_CALL);
        assert_eq!((rule.cfa_off, rule.ra_off, rule.cfa_add, rule.fp_off), (-8, 0x30, 0xc0, 0x68_0038));
        assert!(rule.is_valid());
        // push rbp; mov rbp,rsp; sub rsp,0x18; mov [rsi+0x38],rsp; add rsp,0x18; pop rbp; ret
        let with_callback = of_1_20.with_callback(&code("554889e54883ec18488966384883c4185dc3"));
        let rules =
            [cfa::GO_GROW, cfa::GO_LEAVE, cfa::GO_CALL, cfa::GO_RESUME].map(|kind| with_callback.rule(kind));
        assert_eq!(rules.map(|rule| rule.flags), [5, 5, 0, 0]);
        assert!(rules.iter().all(Rule::is_valid));
    }

    /// Functions that contradict each other, or are something else.
    #[test]
    fn other_code_is_refused() {
        assert_eq!(read([GO_1_26[0], GO_1_20[1], GO_1_26[2]]), None);
        for missing in 0..3 {
            let mut all = GO_1_26;
            all[missing] = "c3";
            assert_eq!(read(all), None);
        }
        // Each changed displacement of a field.
        for (function, field) in
            [(0, "488b4038"), (0, "488b80b8"), (1, "498946"), (2, "48896f60"), (2, "488b5f30")]
        {
            let mut all = GO_1_26.map(str::to_owned);
            if let Some(at) = all[function].find(field) {
                let end = at + field.len();
                all[function].replace_range(end - 2..end, "70");
            }
            let [systemstack, mcall, morestack] = all.each_ref().map(|digits| digits.as_str());
            let changed = read([systemstack, mcall, morestack]);
            assert!(changed.is_none() || changed == read(GO_1_26), "{function} {field}");
        }
    }

    #[test]
    fn the_frame_of_a_call_of_c() {
        let call = CallOfC::read(&code(ASMCGOCALL_1_20)).unwrap();
        assert_eq!((call.rule.cfa_off, call.rule.ra_off, call.rule.cfa_add), (0x30, 0x28, 8));
        // From the store of the distance on, and not before it.
        let run = 0x43..0x7e;
        assert_eq!(call.rule(0x5c, &run), call.rule);
        assert_eq!(call.rule(0x57, &run), Rule::SWITCH);
        assert_eq!(CallOfC::read(&code(GO_1_20[0])), None);
    }
}
