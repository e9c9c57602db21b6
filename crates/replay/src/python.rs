//! Walks of Python's frames: what they know of an interpreter, and what they give.

/// `MAX_INTERPRETED_FRAMES` of `bpf/abi/messages.h`.
pub const MAX_PYTHON_FRAMES: usize = 512;
pub(crate) const OUTERMOST: u32 = 1;
pub(crate) const STAMP_SHIFT: u32 = 1;
pub(crate) const HALF_LINKED: u32 = 0x100;
pub(crate) const CODE_OBJECT: u64 = 12;
/// `struct python_code`.
pub(crate) const CODE_BYTES: usize = 32;

/// `struct python` of `bpf/abi/python.h`, which says what the fields mean. Any values are allowed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the same fields")]
pub struct Python {
    pub runtime: u64,
    pub evaluator: [[u64; 2]; 3],
    pub before_dispatch: [u64; 2],
    pub slot_table: u32,
    pub slot_block: u32,
    pub slot: i32,
    pub interp_code_counter: u32,
    pub interp_copies_counter: u32,
    pub runtime_tstate_current: u16,
    pub family: u16,
    pub tagged: u16,
    pub tstate_interp: u16,
    pub tstate_thread_id: u16,
    pub tstate_frame: u16,
    pub tstate_base_frame: u16,
    pub cframe_current_frame: u16,
    pub frame_previous: u16,
    pub frame_code: u16,
    pub frame_instruction: u16,
    pub frame_entry: u16,
    pub frame_copy: u16,
    pub frame_bytes: u16,
    pub code_first_unit: u16,
    pub code_copies: u16,
    pub code_from: u16,
    pub code_first_line: u16,
    pub code_version: u16,
    pub code_filename: u16,
    pub code_name: u16,
    pub code_line_table: u16,
    pub str_length: u16,
    pub str_state: u16,
    pub str_kind_shift: u16,
    pub str_ascii_bytes: u16,
    pub str_wide_bytes: u16,
    pub bytes_length: u16,
    pub bytes_bytes: u16,
    pub unused: u16,
}

/// How a walk of Python's frames ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PythonEnd {
    /// At the end of the chain.
    Root = 0,
    /// The thread runs no Python.
    NoState = 1,
    /// What is kept for the thread is not the state of this thread.
    OtherThread = 2,
    /// Memory could not be read.
    Fault = 3,
    /// More frames than are kept.
    Limit = 4,
    /// The thread runs no Python function now.
    NoFrame = 5,
    /// The outermost frame is not one where an evaluator began.
    Open = 6,
}

impl PythonEnd {
    pub(crate) const ALL: [Self; 7] =
        [Self::Root, Self::NoState, Self::OtherThread, Self::Fault, Self::Limit, Self::NoFrame, Self::Open];
}

/// A frame of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PythonFrame {
    /// Address of the code object; 0: an evaluator without a frame.
    pub code: u64,
    /// Where in it, as the interpreter counts.
    pub instruction: u32,
    /// Distinguishes code objects that had the same address.
    pub stamp: u32,
    /// An evaluator began with it.
    pub outermost: bool,
}

/// A code object that a walk has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentCode {
    /// Its address.
    pub address: u64,
    /// As in its frames.
    pub stamp: u32,
    /// The first line of the function.
    pub first_line: u32,
    /// Bytes of the name's characters, and how many each character has.
    pub name: (Vec<u8>, u8),
    /// The same of the file's name.
    pub file: (Vec<u8>, u8),
    /// The line table.
    pub table: Vec<u8>,
    /// 1, 2 and 4: name, file and table are not whole.
    pub cut: u32,
}

impl SentCode {
    /// A section of this kind, behind its head. None: a length does not fit.
    fn of(section: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*section.get(at..)?.first_chunk()?));
        let (head, content) = (word(0)?, section.get(8..)?);
        if head & 0xffff != CODE_OBJECT || head >> 32 != content.len() as u64 {
            return None;
        }
        let (lines, lengths, cut) = (word(16)?, word(24)?, word(32)? as u32);
        let length = |at: u32| (lengths >> (16 * at) & 0xffff) as usize;
        let bytes = content.get(CODE_BYTES..)?;
        let (name, bytes) = bytes.split_at_checked(length(0))?;
        let (file, bytes) = bytes.split_at_checked(length(1))?;
        Some(Self {
            address: word(8)?,
            stamp: lines as u32,
            first_line: (lines >> 32) as u32,
            name: (name.to_vec(), (lengths >> 48) as u8),
            file: (file.to_vec(), (lengths >> 56) as u8),
            table: bytes.get(..length(2))?.to_vec(),
            cut,
        })
    }

    /// Sections, each behind its length. None: they are damaged.
    pub(crate) fn all(mut ring: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while let Some((length, rest)) = ring.split_first_chunk() {
            let (section, rest) =
                rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            all.push(Self::of(section)?);
            ring = rest;
        }
        Some(all)
    }
}
