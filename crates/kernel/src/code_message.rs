//! A code object of an interpreter, as the programs send it before the first stack that has a frame in it.

use crate::abi::skeleton::types;
use crate::headers::Header;

/// `PYTHON_NAME_CUT`, `PYTHON_FILE_CUT` and `PYTHON_TABLE_CUT` of `bpf/abi/python.h`.
const NAME_CUT: u32 = 1;
const FILE_CUT: u32 = 2;
const TABLE_CUT: u32 = 4;

/// A code object of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMessage {
    /// Process, in the agent's PID namespace.
    pub pid: u32,
    /// See `KernelProcess::exec_id`.
    pub exec_id: u64,
    /// Its address in the process.
    pub address: u64,
    /// Distinguishes code objects that have had the same address.
    pub stamp: u32,
    /// The line of the function's definition.
    pub first_line: u32,
    /// The name; from 3.11 on the qualified name. Empty: it could not be read. A name that is too long is cut and ends with "…".
    pub name: String,
    /// The name of the source file, as [`Self::name`].
    pub file: String,
    /// The line table. Empty: it could not be read.
    pub line_table: Vec<u8>,
    /// The line table is longer.
    pub truncated: bool,
}

impl CodeMessage {
    /// Decodes the content of a section of this kind. None: a length does not fit.
    pub(crate) fn new(header: &Header, content: &[u8]) -> Option<Self> {
        use std::mem::offset_of;
        let (head, bytes) = content.split_at_checked(size_of::<types::python_code>())?;
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
        let length = |at: usize| Some(usize::from(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?)));
        let kind = |at: usize| head.get(at).copied();
        let (name, bytes) = bytes.split_at_checked(length(offset_of!(types::python_code, name_bytes))?)?;
        let (file, bytes) = bytes.split_at_checked(length(offset_of!(types::python_code, file_bytes))?)?;
        let table = bytes.get(..length(offset_of!(types::python_code, table_bytes))?)?;
        let cut = u32_at(offset_of!(types::python_code, cut))?;
        let name_kind = kind(offset_of!(types::python_code, name_kind))?;
        let file_kind = kind(offset_of!(types::python_code, file_kind))?;
        Some(Self {
            pid: header.pid,
            exec_id: header.exec_id,
            address: u64::from_ne_bytes(*head.first_chunk()?),
            stamp: u32_at(offset_of!(types::python_code, stamp))?,
            first_line: u32_at(offset_of!(types::python_code, first_line))?,
            name: text(name, name_kind, cut & NAME_CUT != 0),
            file: text(file, file_kind, cut & FILE_CUT != 0),
            line_table: table.to_vec(),
            truncated: cut & TABLE_CUT != 0,
        })
    }
}

/// A string of Python, whose characters have 1, 2 or 4 bytes each.
fn text(bytes: &[u8], kind: u8, is_cut: bool) -> String {
    let mut text = interpreters::python::text(bytes, kind);
    if is_cut && !text.is_empty() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_strings_are_decoded() {
        assert_eq!(text(b"f\xe9e", 1, false), "fée");
        assert_eq!(
            text(&[0x3b1_u16.to_ne_bytes(), 0xd800_u16.to_ne_bytes()].concat(), 2, false),
            "α\u{fffd}"
        );
        assert_eq!(text(&0x1f40d_u32.to_ne_bytes(), 4, true), "🐍…");
        assert_eq!(text(b"abc", 0, true), "");
    }
}
