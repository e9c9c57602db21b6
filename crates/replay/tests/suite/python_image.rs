//! Memory of a thread that runs Python: its state, frames, code objects.

use replay::{Python, PythonWalk, Registers, Replay, Stack, Thread};

pub const THREAD_POINTER: u64 = 0x7f00_0000_1000;
pub const STATE: u64 = 0x6000_0000_0100;
pub const INTERPRETER: u64 = 0x6000_0001_0000;
pub const COUNTER: u32 = 0x40;
/// Code objects, and the strings and bytes that belong to them, each in its own kilobyte.
pub const CODES: u64 = 0x6000_0010_0000;
pub const TEXTS: u64 = 0x6000_0020_0000;
const PIECE: u64 = 0x400;
/// A page where frames lie; nothing is mapped before it.
pub const FRAMES: u64 = 0x6000_0100_0000;
const FRAME_PAGES: usize = 64;
/// Where a thread of 3.11 or 3.12 has its `_PyCFrame`, if its native stack has none.
pub const CFRAME: u64 = 0x6000_0000_0800;
pub const RING: usize = 1 << 20;

/// How an interpreter links its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Heap = 0,
    Entry = 1,
    Shims = 2,
    Direct = 3,
}

fn interpreter(kind: Kind) -> Python {
    let old = Python {
        slot: 0x318,
        family: kind as u16,
        tstate_interp: 16,
        tstate_thread_id: 176,
        tstate_frame: 24,
        frame_previous: 24,
        frame_code: 32,
        frame_instruction: 96,
        frame_bytes: 100,
        code_from: 40,
        code_first_line: 40,
        code_filename: 104,
        code_name: 112,
        code_line_table: 120,
        str_length: 16,
        str_state: 32,
        str_kind_shift: 2,
        str_ascii_bytes: 48,
        str_wide_bytes: 72,
        bytes_length: 16,
        bytes_bytes: 32,
        ..Python::default()
    };
    let entry = Python {
        tstate_thread_id: 152,
        tstate_frame: 56,
        cframe_current_frame: 8,
        frame_previous: 48,
        frame_instruction: 56,
        frame_entry: 68,
        frame_bytes: 69,
        code_first_unit: 184,
        code_from: 72,
        code_first_line: 72,
        code_filename: 112,
        code_name: 128,
        code_line_table: 136,
        ..old
    };
    let shims = Python {
        tstate_thread_id: 136,
        cframe_current_frame: 0,
        frame_previous: 8,
        frame_code: 0,
        frame_entry: 70,
        frame_bytes: 71,
        code_first_unit: 192,
        code_from: 68,
        code_first_line: 68,
        code_version: 92,
        ..entry
    };
    match kind {
        Kind::Heap => old,
        Kind::Entry => entry,
        Kind::Shims => shims,
        Kind::Direct => Python { tstate_thread_id: 152, tstate_frame: 72, code_first_unit: 200, ..shims },
    }
}

/// A frame to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub code: u64,
    pub instruction: u32,
    /// `is_entry` or `owner`.
    pub mark: u8,
}

pub const SHIM: Frame = Frame { code: 0, instruction: 0, mark: 3 };

pub struct Image {
    pub python: Python,
    pub memory: Stack,
    pub registers: Registers,
    kind: Kind,
}

impl Image {
    /// A thread without frames.
    pub fn new(kind: Kind) -> Self {
        let zeros = |pages: usize| vec![0; pages << 12];
        let memory = Stack::new(THREAD_POINTER, zeros(1))
            .and(STATE & !0xfff, zeros(1))
            .and(INTERPRETER, zeros(1))
            .and(CODES, zeros(16))
            .and(TEXTS, zeros(64))
            .and(FRAMES, zeros(FRAME_PAGES));
        let python = interpreter(kind);
        let mut registers = Registers::of(0x1000, 0, 0);
        registers.thread_pointer = THREAD_POINTER;
        let mut image = Self { python, memory, registers, kind };
        image.set(THREAD_POINTER.wrapping_add_signed(python.slot.into()), STATE);
        image.set(STATE + u64::from(python.tstate_thread_id), THREAD_POINTER);
        image.set(STATE + u64::from(python.tstate_interp), INTERPRETER);
        image.begin(0);
        image
    }

    pub fn set(&mut self, address: u64, word: u64) {
        assert!(self.memory.set_word(address, word), "{address:#x}");
    }

    /// The innermost frame.
    pub fn begin(&mut self, frame: u64) {
        let mut at = STATE + u64::from(self.python.tstate_frame);
        if matches!(self.kind, Kind::Entry | Kind::Shims) {
            self.set(at, CFRAME);
            at = CFRAME + u64::from(self.python.cframe_current_frame);
        }
        self.set(at, frame);
    }

    pub fn place(&mut self, at: u64, frame: Frame, previous: u64) {
        let python = self.python;
        let first_unit =
            if self.kind == Kind::Heap { 0 } else { frame.code + u64::from(python.code_first_unit) };
        self.set(at + u64::from(python.frame_instruction), first_unit + u64::from(frame.instruction));
        if self.kind != Kind::Heap {
            self.set(at + u64::from(python.frame_entry), frame.mark.into());
        }
        self.set(at + u64::from(python.frame_code), frame.code);
        self.set(at + u64::from(python.frame_previous), previous);
    }

    /// Frames, the innermost first, at decreasing addresses as the interpreter places calls; the outermost begins at `first`.
    pub fn chain(&mut self, frames: &[Frame], first: u64) {
        let at = |index: usize| first + 88 * (frames.len() - 1 - index) as u64;
        for (index, frame) in frames.iter().enumerate() {
            let previous = if index + 1 < frames.len() { at(index + 1) } else { 0 };
            self.place(at(index), *frame, previous);
        }
        self.begin(at(0));
    }

    /// A string of ASCII characters, or bytes for each third one, of some length, which may be a lie. Its address.
    pub fn text(&mut self, index: u64, text: &str, length: u64) -> u64 {
        let python = self.python;
        let at = TEXTS + index * PIECE;
        self.set(at + u64::from(python.str_length), length);
        // Texts of line tables are bytes.
        let start = if index % 3 == 2 {
            python.bytes_bytes
        } else {
            self.set(at + u64::from(python.str_state), (1 | 1 << 3 | 1 << 4) << python.str_kind_shift);
            python.str_ascii_bytes
        };
        for (i, byte) in text.bytes().enumerate() {
            self.set(at + u64::from(start) + i as u64, byte.into());
        }
        at
    }

    /// A code object with a name, a file and a line table that end with its number.
    pub fn code(&mut self, number: u64) -> u64 {
        let at = CODES + number * PIECE;
        let python = self.python;
        for (part, (field, text)) in [
            (python.code_name, format!("f{number}")),
            (python.code_filename, format!("/m{number}.py")),
            (python.code_line_table, format!("lines{number}")),
        ]
        .into_iter()
        .enumerate()
        {
            let text = self.text(3 * number + part as u64, &text, text.len() as u64);
            self.set(at + u64::from(field), text);
        }
        let line = self.memory.word(at + u64::from(python.code_first_line)).unwrap() & !0xffff_ffff;
        self.set(at + u64::from(python.code_first_line), line | (10 + number));
        at
    }

    pub fn walk_with(&self, replay: &mut Replay) -> PythonWalk {
        replay.walk_python(&Thread::default(), &self.registers, &self.memory, &self.python, RING)
    }

    pub fn walk(&self) -> PythonWalk {
        self.walk_with(&mut Replay::new())
    }
}

/// What shows of a frame, its code by number.
pub fn shown(walk: &PythonWalk) -> Vec<(u64, u32, bool)> {
    let number = |code: u64| if code == 0 { u64::MAX } else { (code - CODES) / PIECE };
    walk.frames.iter().map(|frame| (number(frame.code), frame.instruction, frame.outermost)).collect()
}
