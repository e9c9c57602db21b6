//! `_Py_DebugOffsets`: what an interpreter of 3.13 or later tells about itself at the beginning of `_PyRuntime`.
//!
//! The structure is the same in all releases of a minor version. Guaranteed: each offset lies in its structure, is aligned as its field
//! is, and is below a limit that no release comes near to.

use thiserror::Error;

use super::version::{Stage, Version};

/// The first eight bytes.
const COOKIE: &[u8; 8] = b"xdebugpy";

/// Structures that are walked are small; the state of the interpreter and of the runtime hold objects and are not.
const SMALL: u64 = 1024;
const LARGE: u64 = 16 << 20;

/// Why `_Py_DebugOffsets` is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DebugOffsetsError {
    /// The bytes end before the structure does.
    #[error("_PyRuntime has {0} bytes of debug offsets, which is too few")]
    Short(usize),
    /// It does not begin with the cookie.
    #[error("_PyRuntime does not begin with the debug offsets of CPython 3.13 or later")]
    NoCookie,
    /// The structure of this version is not known.
    #[error("the debug offsets of CPython {0} are not known")]
    UnknownVersion(Version),
    /// The structure is of another version than the interpreter.
    #[error("the debug offsets are of version {told:#x}, not of CPython {expected}")]
    OtherVersion {
        /// The version in the structure, as `PY_VERSION_HEX`.
        told: u64,
        /// The version of the interpreter.
        expected: Version,
    },
    /// An offset lies outside of its structure, is not aligned, or is too large.
    #[error("the debug offsets place {field} at {value}, which cannot be")]
    Range {
        /// Structure and field.
        field: &'static str,
        /// What is told.
        value: u64,
    },
}

/// The offsets that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DebugOffsets {
    /// The interpreter runs threads without a global lock.
    pub free_threaded: bool,
    pub runtime_interpreters_head: u32,
    pub interp_next: u32,
    pub interp_threads_head: u32,
    /// 0: none
    pub interp_code_generation: u32,
    /// 0: none
    pub interp_copies_generation: u32,
    pub tstate_next: u32,
    pub tstate_interp: u32,
    pub tstate_frame: u32,
    pub tstate_thread_id: u32,
    /// 0: none
    pub tstate_base_frame: u32,
    pub frame_previous: u32,
    pub frame_code: u32,
    pub frame_instruction: u32,
    pub frame_owner: u32,
    /// 0: none
    pub frame_copy: u32,
    pub code_filename: u32,
    pub code_name: u32,
    pub code_line_table: u32,
    pub code_first_line: u32,
    pub code_first_unit: u32,
    /// 0: none
    pub code_copies: u32,
    pub bytes_length: u32,
    pub bytes_bytes: u32,
    pub str_state: u32,
    pub str_length: u32,
    pub str_ascii_bytes: u32,
}

/// Positions of the parts of the structure, in words of eight bytes, and of fields within their parts. Each part begins with the size of what it
/// describes.
struct Positions {
    runtime: usize,
    interp: usize,
    /// Behind it is that of the threads' copies of instructions, which only free-threaded builds have.
    interp_code_generation: Option<usize>,
    tstate: usize,
    tstate_thread_id: usize,
    tstate_base_frame: Option<usize>,
    frame: usize,
    code: usize,
    bytes: usize,
    str: usize,
}

const V3_13: Positions = Positions {
    runtime: 3,
    interp: 6,
    interp_code_generation: None,
    tstate: 19,
    tstate_thread_id: 5,
    tstate_base_frame: None,
    frame: 28,
    code: 34,
    bytes: 64,
    str: 67,
};

const V3_14: Positions = Positions {
    runtime: 3,
    interp: 6,
    interp_code_generation: Some(14),
    tstate: 22,
    tstate_thread_id: 5,
    tstate_base_frame: None,
    frame: 31,
    code: 39,
    bytes: 74,
    str: 77,
};

const V3_15: Positions = Positions {
    runtime: 3,
    interp: 6,
    interp_code_generation: Some(14),
    tstate: 22,
    tstate_thread_id: 8,
    tstate_base_frame: Some(5),
    frame: 39,
    code: 47,
    bytes: 86,
    str: 89,
};

/// One structure of the interpreter.
struct Structure<'a> {
    /// Its size, then its offsets.
    words: &'a [u8],
    size: u64,
}

impl DebugOffsets {
    pub(super) fn read(bytes: &[u8], version: Version) -> Result<Self, DebugOffsetsError> {
        let at = match (version.major, version.minor) {
            (3, 13) => V3_13,
            (3, 14) => V3_14,
            (3, 15) => V3_15,
            _ => return Err(DebugOffsetsError::UnknownVersion(version)),
        };
        if !bytes.starts_with(COOKIE) {
            return Err(DebugOffsetsError::NoCookie);
        }
        let word = |position: usize| word(bytes, position).ok_or(DebugOffsetsError::Short(bytes.len()));
        let told = word(1)?;
        let is_same = u32::try_from(told).is_ok_and(|hex| Version::from_hex(hex) == (version, Stage::Stable));
        if !is_same {
            return Err(DebugOffsetsError::OtherVersion { told, expected: version });
        }
        let free_threaded = word(2)? != 0;
        // The last word that is used.
        word(at.str + 3)?;
        let structure = |position: usize, name: &'static str, limit: u64| {
            let size = word(position)?;
            let words = bytes.get(8 * position..).unwrap_or_default();
            (8..=limit)
                .contains(&size)
                .then_some(Structure { words, size })
                .ok_or(DebugOffsetsError::Range { field: name, value: size })
        };
        let runtime = structure(at.runtime, "the end of _PyRuntime", LARGE)?;
        let interp = structure(at.interp, "the end of PyInterpreterState", LARGE)?;
        let tstate = structure(at.tstate, "the end of PyThreadState", SMALL)?;
        let frame = structure(at.frame, "the end of _PyInterpreterFrame", SMALL)?;
        let code = structure(at.code, "the end of PyCodeObject", SMALL)?;
        let bytes_object = structure(at.bytes, "the end of PyBytesObject", SMALL)?;
        let str_object = structure(at.str, "the end of PyUnicodeObject", SMALL)?;
        let copies = at.interp_code_generation.filter(|_| free_threaded).map(|position| position + 1);
        let of_copies =
            |structure: &Structure<'_>, position: usize, field: &'static str, len: u64| match copies {
                Some(_) => structure.field(position, field, len),
                None => Ok(0),
            };
        Ok(Self {
            free_threaded,
            runtime_interpreters_head: runtime.pointer(2, "interpreters.head")?,
            interp_next: interp.pointer(2, "PyInterpreterState.next")?,
            interp_threads_head: interp.pointer(3, "PyInterpreterState.threads.head")?,
            interp_code_generation: match at.interp_code_generation {
                Some(position) => interp.pointer(position, "PyInterpreterState._code_object_generation")?,
                None => 0,
            },
            interp_copies_generation: of_copies(
                &interp,
                copies.unwrap_or(0),
                "PyInterpreterState.tlbc_generation",
                4,
            )?,
            tstate_next: tstate.pointer(2, "PyThreadState.next")?,
            tstate_interp: tstate.pointer(3, "PyThreadState.interp")?,
            tstate_frame: tstate.pointer(4, "PyThreadState.current_frame")?,
            tstate_thread_id: tstate.pointer(at.tstate_thread_id, "PyThreadState.thread_id")?,
            tstate_base_frame: match at.tstate_base_frame {
                Some(position) => tstate.pointer(position, "PyThreadState.base_frame")?,
                None => 0,
            },
            frame_previous: frame.pointer(1, "_PyInterpreterFrame.previous")?,
            frame_code: frame.pointer(2, "_PyInterpreterFrame.f_executable")?,
            frame_instruction: frame.pointer(3, "_PyInterpreterFrame.instr_ptr")?,
            frame_owner: frame.field(5, "_PyInterpreterFrame.owner", 1)?,
            frame_copy: of_copies(&frame, 7, "_PyInterpreterFrame.tlbc_index", 4)?,
            code_filename: code.pointer(1, "PyCodeObject.co_filename")?,
            code_name: code.pointer(3, "PyCodeObject.co_qualname")?,
            code_line_table: code.pointer(4, "PyCodeObject.co_linetable")?,
            code_first_line: code.field(5, "PyCodeObject.co_firstlineno", 4)?,
            code_first_unit: code.field(9, "PyCodeObject.co_code_adaptive", 2)?,
            code_copies: of_copies(&code, 10, "PyCodeObject.co_tlbc", 8)?,
            bytes_length: bytes_object.pointer(1, "PyBytesObject.ob_size")?,
            bytes_bytes: bytes_object.field(2, "PyBytesObject.ob_sval", 1)?,
            str_state: str_object.field(1, "PyASCIIObject.state", 4)?,
            str_length: str_object.pointer(2, "PyASCIIObject.length")?,
            str_ascii_bytes: str_object.field(3, "the end of PyASCIIObject", 1)?,
        })
    }
}

impl Structure<'_> {
    /// The offset of a field of eight bytes.
    fn pointer(&self, position: usize, field: &'static str) -> Result<u32, DebugOffsetsError> {
        self.field(position, field, 8)
    }

    fn field(&self, position: usize, field: &'static str, len: u64) -> Result<u32, DebugOffsetsError> {
        let value = word(self.words, position).unwrap_or(u64::MAX);
        let is_inside = value.checked_add(len).is_some_and(|end| end <= self.size);
        match u32::try_from(value) {
            Ok(offset) if is_inside && value.is_multiple_of(len) => Ok(offset),
            _ => Err(DebugOffsetsError::Range { field, value }),
        }
    }
}

fn word(bytes: &[u8], position: usize) -> Option<u64> {
    let bytes = bytes.get(position.checked_mul(8)?..)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { major: 3, minor: 14, micro: 10 };

    /// The words of a build of 3.14.10, up to the last one that is used.
    const WORDS: [u64; 81] = [
        0x7970_6775_6265_6478,
        0x030e_0af0,
        0,
        // Runtime, interpreter, thread.
        316_616,
        784,
        808,
        225_864,
        7280,
        7272,
        7344,
        7360,
        7408,
        7688,
        7672,
        7680,
        16,
        7784,
        0,
        7800,
        7792,
        7992,
        0,
        832,
        0,
        8,
        16,
        72,
        152,
        160,
        232,
        32,
        // Frame, code object.
        88,
        8,
        0,
        56,
        80,
        74,
        64,
        0,
        216,
        112,
        120,
        128,
        136,
        68,
        52,
        96,
        104,
        208,
        0,
        // Other objects.
        16,
        8,
        416,
        24,
        88,
        168,
        40,
        32,
        16,
        40,
        24,
        16,
        200,
        24,
        40,
        32,
        48,
        32,
        40,
        24,
        16,
        32,
        16,
        24,
        // `bytes`, `str`
        40,
        16,
        32,
        64,
        32,
        16,
        40,
    ];

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn read_with(position: usize, value: u64) -> Result<DebugOffsets, DebugOffsetsError> {
        let mut words = WORDS;
        words[position] = value;
        DebugOffsets::read(&bytes(&words), VERSION)
    }

    #[test]
    fn a_structure_of_3_14_is_read() {
        let told = DebugOffsets::read(&bytes(&WORDS), VERSION).unwrap();
        let wanted = DebugOffsets {
            free_threaded: false,
            runtime_interpreters_head: 808,
            interp_next: 7272,
            interp_threads_head: 7344,
            interp_code_generation: 7992,
            interp_copies_generation: 0,
            tstate_next: 8,
            tstate_interp: 16,
            tstate_frame: 72,
            tstate_thread_id: 152,
            tstate_base_frame: 0,
            frame_previous: 8,
            frame_code: 0,
            frame_instruction: 56,
            frame_owner: 74,
            frame_copy: 0,
            code_filename: 112,
            code_name: 128,
            code_line_table: 136,
            code_first_line: 68,
            code_first_unit: 208,
            code_copies: 0,
            bytes_length: 16,
            bytes_bytes: 32,
            str_state: 32,
            str_length: 16,
            str_ascii_bytes: 40,
        };
        assert_eq!(told, wanted);
    }

    /// The thread states of 3.15 have more fields in front of what is used.
    #[test]
    fn a_structure_of_3_15_is_read() {
        let version = Version { minor: 15, micro: 2, ..VERSION };
        let mut words = vec![0; 93];
        let parts: [(usize, &[u64]); 7] = [
            (0, &[WORDS[0], 0x030f_02f0, 0, 346_568, 912, 936, 226_240, 7272, 7264, 7336]),
            (20, &[7944, 0, 888, 0, 8, 16, 72, 80, 88, 96, 176]),
            (39, &[88, 8, 0, 56, 80, 74, 64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208]),
            (86, &[40, 16, 32]),
            (89, &[64, 32, 16, 40]),
            (31, &[184]),
            (58, &[16]),
        ];
        parts.iter().for_each(|(at, part)| words[*at..][..part.len()].copy_from_slice(part));
        let told = DebugOffsets::read(&bytes(&words), version).unwrap();
        let of_thread =
            (told.tstate_interp, told.tstate_frame, told.tstate_base_frame, told.tstate_thread_id);
        assert_eq!(of_thread, (16, 72, 80, 176));
        assert_eq!((told.interp_code_generation, told.frame_owner, told.code_first_unit), (7944, 74, 208));
        assert_eq!((told.bytes_bytes, told.str_ascii_bytes), (32, 40));
    }

    #[test]
    fn a_free_threaded_build_has_copies_of_instructions() {
        let mut words = WORDS;
        (words[2], words[21], words[38], words[49]) = (1, 8020, 72, 144);
        let told = DebugOffsets::read(&bytes(&words), VERSION).unwrap();
        assert!(told.free_threaded);
        let of_copies = (told.interp_copies_generation, told.frame_copy, told.code_copies);
        assert_eq!(of_copies, (8020, 72, 144));
        for (position, value) in [(21, 1 << 40), (38, 86), (38, 88), (49, 212), (49, u64::MAX)] {
            let mut words = words;
            words[position] = value;
            let refused = DebugOffsets::read(&bytes(&words), VERSION);
            assert!(
                matches!(refused, Err(DebugOffsetsError::Range { .. })),
                "word {position} = {value}: {refused:?}"
            );
        }
    }

    #[test]
    fn what_is_not_this_structure_is_told() {
        let all = bytes(&WORDS);
        assert_eq!(DebugOffsets::read(b"", VERSION), Err(DebugOffsetsError::NoCookie));
        for len in [8, 16, all.len() - 1] {
            assert_eq!(DebugOffsets::read(&all[..len], VERSION), Err(DebugOffsetsError::Short(len)));
        }
        let other = Version { micro: 9, ..VERSION };
        let expected = DebugOffsetsError::OtherVersion { told: 0x030e_0af0, expected: other };
        assert_eq!(DebugOffsets::read(&all, other), Err(expected));
        // A beta.
        assert!(matches!(read_with(1, 0x030e_0ab1), Err(DebugOffsetsError::OtherVersion { .. })));
        let unknown = Version { minor: 16, ..VERSION };
        assert_eq!(DebugOffsets::read(&all, unknown), Err(DebugOffsetsError::UnknownVersion(unknown)));
    }

    #[test]
    fn offsets_that_cannot_be_are_not_believed() {
        for (position, value) in [
            // Not aligned, beyond the end, enormous.
            (5, 809),
            (5, 316_616),
            (5, u64::MAX),
            (26, 832),
            (36, 88),
            (44, 70),
            (48, 209),
            // Structures that are too large or of no size.
            (3, 1 << 30),
            (22, 1025),
            (31, 0),
            (77, u64::MAX),
        ] {
            let refused = read_with(position, value);
            let is_told =
                matches!(refused, Err(DebugOffsetsError::Range { value: told, .. }) if told == value);
            assert!(is_told, "word {position} = {value}: {refused:?}");
        }
    }
}
