//! The frames of a thread that does not run, and the code objects of frames, read from the memory of its process.
//!
//! Guaranteed: whatever the memory holds, the work is bounded: at most [`MAX_FRAMES`] frames, and strings and tables of bounded length. What is
//! read makes sense only if the thread has not run meanwhile.
//!
//! Not here: threads that run; the programs in the kernel walk those.

use super::text::text;
use super::{Family, Layout};

/// Frames of a thread that are read, the innermost ones.
pub const MAX_FRAMES: usize = 512;

/// In 3.12 and later: frames with this owner, or a greater one, are no functions.
const OWNED_BY_C_STACK: u8 = 3;

/// The most characters of a name, of the path of a file, and the most bytes of a line table.
const NAME: usize = 512;
const FILE: usize = 1024;
const TABLE: usize = 8192;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFrame {
    /// Address of the code object; 0: an evaluator without a function.
    pub code: u64,
    /// The instruction, in units of the interpreter.
    pub instruction: u32,
    /// It is the first frame of a call of the evaluator.
    pub outermost: bool,
}

/// The frames of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Innermost first.
    pub frames: Vec<ChainFrame>,
    /// The last one is where the outermost call of the evaluator began.
    pub is_whole: bool,
}

/// A code object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The name; from 3.11 on the qualified name.
    pub name: String,
    /// The source file.
    pub file: String,
    /// The first line.
    pub first_line: u32,
    /// The line table, as far as it is read.
    pub line_table: Vec<u8>,
}

/// The frames of the thread with the state at this address. `read` gives memory of the process, as far as it is readable. `None`: the thread runs no
/// function, or its frames cannot be read.
pub fn walk(layout: &Layout, state: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<Chain> {
    let mut next = word(&read, state, layout.tstate_frame)?;
    let end = match layout.tstate_base_frame {
        0 => 0,
        field => word(&read, state, field)?,
    };
    if matches!(layout.family, Family::EntryFrames | Family::Shims) {
        next = word(&read, next, layout.cframe_current_frame)?;
    }
    let has_shims = matches!(layout.family, Family::Shims | Family::DebugOffsets);
    let untagged = |address: u64| if layout.tagged_pointers { address & !3 } else { address };
    let mut chain = Chain::default();
    while next != 0 && next != end && chain.frames.len() < MAX_FRAMES {
        let frame = read(next, layout.frame_bytes as usize);
        let entry = *frame.get(layout.frame_entry as usize)?;
        if has_shims && entry >= OWNED_BY_C_STACK {
            match chain.frames.last_mut().filter(|last| !last.outermost) {
                Some(last) => last.outermost = true,
                None => chain.frames.push(ChainFrame { code: 0, instruction: 0, outermost: true }),
            }
        } else {
            let code = untagged(word_at(&frame, layout.frame_code)?);
            let (instruction, outermost) = match layout.family {
                Family::HeapFrames => (half_at(&frame, layout.frame_instruction)?, true),
                family => {
                    let from = first_unit(layout, code, &frame, &read)?;
                    let instruction = word_at(&frame, layout.frame_instruction)?.wrapping_sub(from);
                    (instruction as u32, family == Family::EntryFrames && entry != 0)
                }
            };
            chain.frames.push(ChainFrame { code, instruction, outermost });
        }
        next = untagged(word_at(&frame, layout.frame_previous)?);
    }
    chain.is_whole = (next == 0 || next == end) && chain.frames.last().is_some_and(|last| last.outermost);
    (!chain.frames.is_empty()).then_some(chain)
}

/// The code object at an address.
pub fn code(layout: &Layout, address: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<Code> {
    let string = |field: u32, most: usize| {
        let object = word(&read, address, field)?;
        let length = usize::try_from(word(&read, object, layout.str_length)?).ok()?.min(most);
        let form = word(&read, object, layout.str_state)? as u32 >> (layout.str_kind_shift & 31);
        let (character_bytes, follow, is_ascii) = ((form & 7) as u8, form & 8 != 0, form & 16 != 0);
        let from = if is_ascii { layout.str_ascii_bytes } else { layout.str_wide_bytes };
        let bytes = read(object.wrapping_add(from.into()), length * usize::from(character_bytes));
        follow.then(|| text(&bytes, character_bytes))
    };
    let name = string(layout.code_name, NAME)?;
    let file = string(layout.code_filename, FILE).unwrap_or_default();
    let first_line = word(&read, address, layout.code_first_line)? as u32;
    let table = word(&read, address, layout.code_line_table)?;
    let length = usize::try_from(word(&read, table, layout.bytes_length)?).ok()?.min(TABLE);
    let line_table = read(table.wrapping_add(layout.bytes_bytes.into()), length);
    Some(Code { name, file, first_line, line_table })
}

/// The address of the first instruction of the code object that a frame runs, or of the copy of its instructions that it runs.
fn first_unit(
    layout: &Layout,
    code: u64,
    frame: &[u8],
    read: &impl Fn(u64, usize) -> Vec<u8>,
) -> Option<u64> {
    let number = if layout.code_copies == 0 { 0 } else { half_at(frame, layout.frame_copy)? };
    if number == 0 {
        return Some(code.wrapping_add(layout.code_first_unit.into()));
    }
    let copies = word(read, code, layout.code_copies)?;
    let is_one = u64::from(number) < word(read, copies, 0)?;
    is_one.then(|| word(read, copies.wrapping_add(8 * (u64::from(number) + 1)), 0)).flatten()
}

fn word(read: &impl Fn(u64, usize) -> Vec<u8>, address: u64, offset: u32) -> Option<u64> {
    word_at(&read(address.wrapping_add(offset.into()), 8), 0)
}

fn half_at(bytes: &[u8], offset: u32) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset as usize..)?.first_chunk()?))
}

fn word_at(bytes: &[u8], offset: u32) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset as usize..)?.first_chunk()?))
}
