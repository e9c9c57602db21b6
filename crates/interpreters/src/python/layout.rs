//! Where the fields of an interpreter's data are, by version.
//!
//! Up to 3.12 a table knows them; from 3.13 on the interpreter tells most of them itself. What neither knows for a release is absent.

use super::debug_offsets::{DebugOffsets, DebugOffsetsError};
use super::version::{Family, Version};

/// Offsets in bytes, named by structure and field. "0: none" marks fields that some versions lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// How frames are linked.
    pub family: Family,
    /// Threads run without a global lock.
    pub free_threaded: bool,
    /// `_PyRuntime`: the first interpreter.
    pub runtime_interpreters_head: u32,
    /// `_PyRuntime`: the key of each thread's own state; an `int` that is not 0 once the key exists, then the key. 0: none.
    pub runtime_auto_tss_key: u32,
    /// `_PyRuntime`: the state of the thread that holds the global lock. 0: none.
    pub runtime_tstate_current: u32,
    /// `PyInterpreterState`: the next interpreter.
    pub interp_next: u32,
    /// `PyInterpreterState`: the first thread state.
    pub interp_threads_head: u32,
    /// `PyInterpreterState`: a 32-bit counter that changes when the address of a code object may mean another one. 0: none.
    pub interp_code_counter: u32,
    /// `PyInterpreterState`: a 32-bit counter that changes when the address of a thread's copy of instructions may mean another one. 0: threads
    /// have no copies.
    pub interp_copies_counter: u32,
    /// `PyThreadState`: the next thread state of the interpreter.
    pub tstate_next: u32,
    /// `PyThreadState`: its interpreter.
    pub tstate_interp: u32,
    /// `PyThreadState`: what `pthread_self` returns in its thread.
    pub tstate_thread_id: u32,
    /// `PyThreadState`: where the frames begin: the innermost frame, or in 3.11 and 3.12 a `_PyCFrame`.
    pub tstate_frame: u32,
    /// `PyThreadState`: the frame at the end of each chain, which belongs to no function and no call of the evaluator. 0: there is none.
    pub tstate_base_frame: u32,
    /// `_PyCFrame`: the innermost frame. Valid in 3.11 and 3.12.
    pub cframe_current_frame: u32,
    /// `_PyCFrame`: that of the next evaluator frame outward. 0: there are no such structures.
    pub cframe_previous: u32,
    /// Frame: the next frame outward.
    pub frame_previous: u32,
    /// Frame: its code object.
    pub frame_code: u32,
    /// Frame: its instruction: to 3.10 an `int`, later an address in the code object.
    pub frame_instruction: u32,
    /// Frame: one byte that marks the boundaries of evaluator frames: in 3.11 `is_entry`, later `owner`. 0: none.
    pub frame_entry: u32,
    /// Frame: the number of the copy of instructions that it runs, an `int`; 0 is the code object's own. 0: there are no copies.
    pub frame_copy: u32,
    /// The end of the last field of a frame that is read.
    pub frame_bytes: u32,
    /// Code object: its first instruction. 0: none, instructions are numbers.
    pub code_first_unit: u32,
    /// Code object: the array of the copies of its instructions: their number, then their addresses. 0: there are no copies.
    pub code_copies: u32,
    /// Code object: the first line, an `int`.
    pub code_first_line: u32,
    /// Code object: the name of the source file, a `str`.
    pub code_filename: u32,
    /// Code object: the name, a `str`; from 3.11 on the qualified name.
    pub code_name: u32,
    /// Code object: the line table, a `bytes`.
    pub code_line_table: u32,
    /// Code object: its 32-bit version. 0: none.
    pub code_version: u32,
    /// `str`: the number of characters.
    pub str_length: u32,
    /// `str`: a 32-bit word with bits that tell the form.
    pub str_state: u32,
    /// Position of the first of the three bits of [`Self::str_state`] that tell the bytes of a character: 1, 2 or 4. The next bit
    /// tells that the characters follow the object, the one after that that they are ASCII.
    pub str_kind_shift: u32,
    /// `str`: the characters, if all are ASCII.
    pub str_ascii_bytes: u32,
    /// `str`: the characters, if some are not ASCII.
    pub str_wide_bytes: u32,
    /// `bytes`: the number of bytes.
    pub bytes_length: u32,
    /// `bytes`: the bytes.
    pub bytes_bytes: u32,
    /// The lower two bits of pointers in frames are marks.
    pub tagged_pointers: bool,
}

/// 3.8, from which the table tells the later versions by their differences.
const V3_8: Layout = Layout {
    family: Family::HeapFrames,
    free_threaded: false,
    runtime_interpreters_head: 32,
    runtime_auto_tss_key: 1392,
    runtime_tstate_current: 1368,
    interp_next: 0,
    interp_threads_head: 8,
    interp_code_counter: 0,
    interp_copies_counter: 0,
    tstate_next: 8,
    tstate_interp: 16,
    tstate_thread_id: 176,
    tstate_frame: 24,
    tstate_base_frame: 0,
    cframe_current_frame: 0,
    cframe_previous: 0,
    frame_previous: 24,
    frame_code: 32,
    frame_instruction: 104,
    frame_entry: 0,
    frame_copy: 0,
    frame_bytes: 108,
    code_first_unit: 0,
    code_copies: 0,
    code_first_line: 40,
    code_filename: 104,
    code_name: 112,
    code_line_table: 120,
    code_version: 0,
    str_length: 16,
    str_state: 32,
    str_kind_shift: 2,
    str_ascii_bytes: 48,
    str_wide_bytes: 72,
    bytes_length: 16,
    bytes_bytes: 32,
    tagged_pointers: false,
};

const V3_9: Layout = Layout { runtime_auto_tss_key: 584, runtime_tstate_current: 568, ..V3_8 };

const V3_10: Layout = Layout { frame_instruction: 96, frame_bytes: 100, ..V3_9 };

const V3_11: Layout = Layout {
    family: Family::EntryFrames,
    runtime_interpreters_head: 40,
    runtime_auto_tss_key: 592,
    runtime_tstate_current: 576,
    interp_threads_head: 16,
    tstate_thread_id: 152,
    tstate_frame: 56,
    cframe_current_frame: 8,
    cframe_previous: 16,
    frame_previous: 48,
    frame_code: 32,
    frame_instruction: 56,
    frame_entry: 68,
    frame_bytes: 69,
    code_first_unit: 184,
    code_first_line: 72,
    code_filename: 112,
    code_name: 128,
    code_line_table: 136,
    ..V3_10
};

const V3_12: Layout = Layout {
    family: Family::Shims,
    runtime_auto_tss_key: 1544,
    runtime_tstate_current: 0,
    interp_threads_head: 72,
    tstate_thread_id: 136,
    cframe_current_frame: 0,
    cframe_previous: 8,
    frame_previous: 8,
    frame_code: 0,
    frame_entry: 70,
    frame_bytes: 71,
    code_first_unit: 192,
    code_first_line: 68,
    code_version: 92,
    str_ascii_bytes: 40,
    str_wide_bytes: 56,
    ..V3_11
};

/// `func_state.next_version` in `PyInterpreterState`, which moves with any change of the structure.
/// It is believed only for releases in which it was seen to move.
const CODE_COUNTERS: [(Version, u32); 1] = [(Version { major: 3, minor: 13, micro: 0 }, 17_000)];

/// `autoTSSkey` where the interpreter tells offsets, but not this one.
const AUTO_TSS_KEYS: [(Version, u32); 3] = [
    (Version { major: 3, minor: 13, micro: 0 }, 2160),
    (Version { major: 3, minor: 13, micro: 5 }, 2160),
    (Version { major: 3, minor: 14, micro: 10 }, 2336),
];

/// `co_version` lies so far behind the first line in 3.13 and later. It is believed only where the names of file and line table lie as far from
/// there as they did when it was found.
const CODE_VERSION: u32 = 24;
const BESIDE_CODE_VERSION: (u32, u32) = (44, 68);

/// A string among the initial values of `_PyRuntime`, whose form is known. It ends with a zero.
const KNOWN_STRING: &[u8] = b"__qualname__\0";
/// Bytes of `_PyRuntime` in which it is searched; it has some hundred thousand.
const MAX_SEARCHED: usize = 4 << 20;
/// Where the bits that tell the form of a string may begin. Builds without a global lock have a variable of their own in front of them.
const KIND_SHIFTS: [u32; 3] = [2, 8, 16];
/// One byte for each character, behind the object, all ASCII.
const KNOWN_FORM: u32 = 1 | 1 << 3 | 1 << 4;

impl Layout {
    /// The layout of a version up to 3.12. `None` for others: of later ones only [`Self::from_debug_offsets`] knows it.
    #[must_use]
    pub fn of(version: Version) -> Option<Self> {
        let known = match (version.major, version.minor) {
            (3, 8) => V3_8,
            (3, 9) => V3_9,
            (3, 10) => V3_10,
            (3, 11) => V3_11,
            (3, 12) => V3_12,
            _ => return None,
        };
        Some(Self { interp_code_counter: by_release(&CODE_COUNTERS, version), ..known })
    }

    /// The layout that an interpreter of 3.13 or later tells by the initial value of `_PyRuntime`.
    ///
    /// # Errors
    /// The bytes are no such structure, are of another version, or tell offsets that cannot be.
    pub fn from_debug_offsets(bytes: &[u8], version: Version) -> Result<Self, DebugOffsetsError> {
        let told = DebugOffsets::read(bytes, version)?;
        let behind_line = |offset: u32| offset.wrapping_sub(told.code_first_line);
        let beside = (behind_line(told.code_filename), behind_line(told.code_line_table));
        let counter = match told.interp_code_generation {
            0 => by_release(&CODE_COUNTERS, version),
            told => told,
        };
        Ok(Self {
            family: Family::DebugOffsets,
            free_threaded: told.free_threaded,
            runtime_interpreters_head: told.runtime_interpreters_head,
            runtime_auto_tss_key: by_release(&AUTO_TSS_KEYS, version),
            runtime_tstate_current: 0,
            interp_next: told.interp_next,
            interp_threads_head: told.interp_threads_head,
            interp_code_counter: counter,
            interp_copies_counter: told.interp_copies_generation,
            tstate_next: told.tstate_next,
            tstate_interp: told.tstate_interp,
            tstate_thread_id: told.tstate_thread_id,
            tstate_frame: told.tstate_frame,
            tstate_base_frame: told.tstate_base_frame,
            cframe_current_frame: 0,
            cframe_previous: 0,
            frame_previous: told.frame_previous,
            frame_code: told.frame_code,
            frame_instruction: told.frame_instruction,
            frame_entry: told.frame_owner,
            frame_copy: told.frame_copy,
            frame_bytes: (told.frame_owner + 1)
                .max(told.frame_copy + 4)
                .max(told.frame_instruction.max(told.frame_previous) + 8),
            code_first_unit: told.code_first_unit,
            code_copies: told.code_copies,
            code_first_line: told.code_first_line,
            code_filename: told.code_filename,
            code_name: told.code_name,
            code_line_table: told.code_line_table,
            code_version: if beside == BESIDE_CODE_VERSION { told.code_first_line + CODE_VERSION } else { 0 },
            str_length: told.str_length,
            str_state: told.str_state,
            str_kind_shift: kind_shift(bytes, &told).unwrap_or(V3_12.str_kind_shift),
            str_ascii_bytes: told.str_ascii_bytes,
            // A compact string has the length and the address of its UTF-8 form between its head and its characters.
            str_wide_bytes: told.str_ascii_bytes + 16,
            bytes_length: told.bytes_length,
            bytes_bytes: told.bytes_bytes,
            tagged_pointers: version.minor >= 14,
        })
    }
}

/// The value of [`Layout::str_kind_shift`], by a string with known characters among the initial values of `_PyRuntime`.
fn kind_shift(runtime: &[u8], told: &DebugOffsets) -> Option<u32> {
    let before = |characters: usize, field: u32| {
        let at = characters.checked_sub(told.str_ascii_bytes.checked_sub(field)? as usize)?;
        runtime.get(at..)
    };
    let searched = runtime.get(..MAX_SEARCHED).unwrap_or(runtime);
    let mut places =
        searched.windows(KNOWN_STRING.len()).enumerate().filter(|(_, bytes)| *bytes == KNOWN_STRING);
    places.find_map(|(at, _)| {
        let length = u64::from_le_bytes(*before(at, told.str_length)?.first_chunk()?);
        let state = u32::from_le_bytes(*before(at, told.str_state)?.first_chunk()?);
        let is_it = |shift: &u32| state >> shift & 0x1f == KNOWN_FORM;
        KIND_SHIFTS.into_iter().find(is_it).filter(|_| length == KNOWN_STRING.len() as u64 - 1)
    })
}

/// The value of exactly this release, or 0.
fn by_release(known: &[(Version, u32)], version: Version) -> u32 {
    known.iter().find(|(of, _)| *of == version).map_or(0, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_between_releases_is_known_for_one_release_only() {
        let counter = |minor, micro| by_release(&CODE_COUNTERS, Version { major: 3, minor, micro });
        assert_eq!((counter(13, 0), counter(13, 1), counter(12, 1)), (17_000, 0, 0));
    }

    /// The strings of `_PyRuntime` tell where the bits of their form are, in each way in which interpreters were built.
    #[test]
    fn a_known_string_tells_where_the_form_of_strings_is() {
        let told = |ascii| DebugOffsets {
            str_length: 16,
            str_state: 32,
            str_ascii_bytes: ascii,
            ..DebugOffsets::default()
        };
        let runtime = |shift: u32, length: u64| {
            let mut bytes = vec![0xff; 100];
            let object = bytes.len();
            bytes.resize(object + 40, 0);
            bytes[object + 16..][..8].copy_from_slice(&length.to_le_bytes());
            bytes[object + 32..][..4].copy_from_slice(&(3 | KNOWN_FORM << shift).to_le_bytes());
            bytes.extend(KNOWN_STRING);
            bytes.extend([0; 100]);
            bytes
        };
        for shift in KIND_SHIFTS {
            assert_eq!(kind_shift(&runtime(shift, 12), &told(40)), Some(shift));
            // Text of the same characters is no string.
            assert_eq!(kind_shift(&runtime(shift, 11), &told(40)), None);
        }
        assert_eq!(kind_shift(&runtime(5, 12), &told(40)), None);
        for offset in [31, 4096] {
            assert_eq!(kind_shift(&runtime(2, 12), &told(offset)), None);
        }
        assert_eq!(kind_shift(KNOWN_STRING, &told(40)), None);
    }

    #[test]
    fn other_versions_have_no_layout() {
        for (major, minor) in [(2, 7), (3, 7), (3, 13), (3, 15), (4, 8)] {
            assert_eq!(Layout::of(Version { major, minor, micro: 0 }), None, "{major}.{minor}");
        }
    }
}
