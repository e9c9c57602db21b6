//! Frames: places in code.

use profile::{Avma, Svma};
use serde::{Deserialize, Serialize};

use crate::module::CodeMappingId;
use crate::task::ExecInstanceId;

/// Index of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameId(pub u32);

/// Index of a [`CodeObject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CodeObjectId(pub u32);

/// A place in code.
///
/// `exact` tells an instruction (the leaf, or one that a signal interrupted) from a return address, whose call lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Frame {
    /// In a file.
    Native {
        /// The loaded range of the file.
        mapping: CodeMappingId,
        /// Link-time address.
        svma: Svma,
        /// Whether it is an instruction.
        exact: bool,
    },
    /// In the kernel.
    Kernel {
        /// Address in the running kernel.
        address: u64,
        /// Whether it is an instruction.
        exact: bool,
    },
    /// In code that a program made at run time.
    Jit {
        /// The program.
        program: ExecInstanceId,
        /// Address in the process.
        address: Avma,
        /// Whether it is an instruction.
        exact: bool,
    },
    /// In a function of an interpreted language.
    Interpreted {
        /// The function.
        code: CodeObjectId,
        /// Index of the instruction in the code object, in units of the interpreter.
        instruction: u32,
    },
    /// In no known mapping.
    Unknown {
        /// Address in the process.
        address: Avma,
    },
}

impl Frame {
    /// The address by which a name is looked up: the instruction, or the call before a return address.
    #[must_use]
    pub fn lookup(address: u64, exact: bool) -> u64 {
        if exact { address } else { address.saturating_sub(1) }
    }
}

/// A function of an interpreted language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeObject {
    /// Qualified name of the function.
    pub name: String,
    /// Source file.
    pub file: String,
    /// First line of the function.
    pub first_line: u32,
    /// First instruction and line of each stretch of code, by instruction.
    pub lines: Vec<(u32, u32)>,
}

impl CodeObject {
    /// The source line of an instruction; the function's first line where the table says nothing.
    #[must_use]
    pub fn line_of(&self, instruction: u32) -> u32 {
        let after = self.lines.partition_point(|(first, _)| *first <= instruction);
        after.checked_sub(1).and_then(|at| self.lines.get(at)).map_or(self.first_line, |(_, line)| *line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_line_of_its_stretch() {
        let code = CodeObject { first_line: 10, lines: vec![(4, 11), (8, 13)], ..CodeObject::default() };
        assert_eq!([0, 4, 7, 8, 100].map(|instruction| code.line_of(instruction)), [10, 11, 11, 13, 13]);
    }

    #[test]
    fn a_return_address_is_looked_up_at_its_call() {
        assert_eq!((Frame::lookup(7, true), Frame::lookup(7, false), Frame::lookup(0, false)), (7, 6, 0));
    }
}
