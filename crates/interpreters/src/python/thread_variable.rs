//! The variable in which each thread keeps the address of its state from 3.15 on, found in the code of the function that returns it.
//!
//! Guaranteed: a place is told only if the function does nothing else than to load one thread-local variable, in one of the ways in which
//! compilers load them. What the words in memory tell of the place is checked against the threads by [`super::slot`].

use elf::Layout;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use profile::Svma;

use super::symbols::Place;

/// Instructions of the function that are looked at; it has up to ten.
const MAX_INSTRUCTIONS: usize = 16;
/// Bytes of it.
const MAX_CODE: usize = 128;

/// How code finds a thread-local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadVariable {
    /// It lies so far from the thread pointer: variables of the program itself.
    At {
        /// In bytes, below 0.
        offset: i32,
    },
    /// The word at this address is its distance from the thread pointer: variables of libraries that are there from the start.
    Told {
        /// Link-time address of the word.
        word: Svma,
    },
    /// Two words at this address are the number of its module and a distance from the beginning of the module's block: variables of any
    /// library.
    OfModule {
        /// Link-time address of the first word.
        words: Svma,
        /// What is added to the distance, in bytes.
        more: u32,
    },
    /// The second of two words at this address is its distance from the thread pointer, if the first is the address of a function that
    /// returns it. Otherwise the place is not known.
    Described {
        /// Link-time address of the first word.
        words: Svma,
    },
}

impl ThreadVariable {
    /// The variable that a function loads and returns.
    pub(super) fn of_code(layout: &Layout, file: &[u8], function: Place) -> Option<Self> {
        let code = layout.bytes_at(file, function.address)?;
        let len = usize::try_from(function.size).unwrap_or(MAX_CODE).min(MAX_CODE).min(code.len());
        of_instructions(Decoder::with_ip(64, &code[..len], function.address, DecoderOptions::NONE))
    }
}

fn of_instructions(function: Decoder<'_>) -> Option<ThreadVariable> {
    let mut address = None;
    let mut found = None;
    for instruction in function.into_iter().take(MAX_INSTRUCTIONS) {
        match (instruction.flow_control(), &mut found) {
            (FlowControl::Return, _) => return found,
            // `__tls_get_addr`, or the function of a description.
            (FlowControl::Call | FlowControl::IndirectCall, None) => {
                let words = Svma(address?);
                found = Some(match instruction.memory_base() {
                    Register::RAX => ThreadVariable::Described { words },
                    _ => ThreadVariable::OfModule { words, more: 0 },
                });
            }
            (FlowControl::Next, None) => found = loaded(&instruction, address),
            (FlowControl::Next, Some(ThreadVariable::OfModule { more, .. }))
                if instruction.memory_base() == Register::RAX =>
            {
                *more = u32::try_from(instruction.memory_displacement64()).ok()?;
            }
            (FlowControl::Next, Some(_)) => {}
            _ => return None,
        }
        address = loaded_address(&instruction).or(address);
    }
    None
}

/// The variable that an instruction reads relative to the thread pointer. `told`: the last address that was loaded.
fn loaded(instruction: &Instruction, told: Option<u64>) -> Option<ThreadVariable> {
    if instruction.mnemonic() != Mnemonic::Mov
        || instruction.memory_segment() != Register::FS
        || instruction.memory_index() != Register::None
    {
        return None;
    }
    let distance = instruction.memory_displacement64().cast_signed();
    match instruction.memory_base() {
        // The thread pointer itself, to which an offset is added.
        Register::None if distance == 0 => None,
        Register::None => i32::try_from(distance).ok().map(|offset| ThreadVariable::At { offset }),
        _ if distance == 0 => told.map(|word| ThreadVariable::Told { word: Svma(word) }),
        _ => None,
    }
}

/// The address relative to the code that an instruction loads or reads.
fn loaded_address(instruction: &Instruction) -> Option<u64> {
    let is_load = matches!(instruction.code(), Code::Lea_r64_m | Code::Mov_r64_rm64);
    let reads = instruction.op1_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand();
    (is_load && reads).then(|| instruction.ip_rel_memory_address())
}

#[cfg(test)]
mod tests;
