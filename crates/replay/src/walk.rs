//! Walks over recorded stacks.

use unwind::Table;

use crate::Error;
use crate::Stack;
use crate::abi;
use crate::native::Input;
use crate::native::Outcome;
use crate::native::PythonResult;
use crate::native::RawFrame;
use crate::native::RawPythonFrame;
use crate::native::State;
use crate::python;
use crate::python::Python;
use crate::python::PythonEnd;
use crate::python::PythonFrame;
use crate::python::SentCode;
use crate::return_probe::ReturnProbe;
use crate::table_pool::TablePool;
use crate::tables;
use crate::tables::RawMapping;

/// A table that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableId(u32);

/// How the code of a mapping is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// By a table.
    Table(TableId),
    /// By frame pointers: there is no unwind information.
    FramePointers,
    /// Not yet: the table is being made.
    NotReady,
}

/// An executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address in the process.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Address in the process minus link-time address.
    pub bias: u64,
    /// How its code is unwound.
    pub code: Code,
}

/// Whose stack it is, as the memos tell stacks apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Number of the thread.
    pub tid: u32,
    /// Changes with exec.
    pub exec_id: u64,
    /// Changes with the mappings and their tables, and is of one process: rules are remembered by pc and generation.
    pub generation: u32,
}

/// Registers of the leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Instruction pointer.
    pub pc: u64,
    /// The 16 integer registers by DWARF number: frame pointer 6, stack pointer 7.
    pub by_number: [u64; 16],
    /// The base of thread-local storage.
    pub thread_pointer: u64,
}

impl Registers {
    /// Instruction, stack and frame pointer; the others are 0.
    #[must_use]
    pub fn of(pc: u64, sp: u64, fp: u64) -> Self {
        let mut by_number = [0; 16];
        by_number[6] = fp;
        by_number[7] = sp;
        Self { pc, by_number, thread_pointer: 0 }
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// At the outermost frame.
    Root = 0,
    /// A pc in no executable mapping.
    NoMapping = 1,
    /// The file has tables, none covers the pc, and the frame pointer did not help.
    NoRow = 2,
    /// A rule outside of what the walker evaluates.
    UnsupportedRule = 3,
    /// A frame pointer or CFA not above the last one.
    FpChain = 4,
    /// Stack memory not readable.
    Fault = 5,
    /// More frames than are kept.
    FrameLimit = 6,
    /// A table still being made.
    TableNotReady = 7,
    /// The caller is on another stack that could not be found or read.
    StackSwitch = 11,
    /// A frame pointer or return address of 0 where no stack begins.
    ZeroFrame = 13,
}

impl End {
    const ALL: [Self; 10] = [
        Self::Root,
        Self::NoMapping,
        Self::NoRow,
        Self::UnsupportedRule,
        Self::FpChain,
        Self::Fault,
        Self::FrameLimit,
        Self::TableNotReady,
        Self::StackSwitch,
        Self::ZeroFrame,
    ];

    /// The end with a number that the walker gives.
    fn of(number: u32) -> Self {
        Self::ALL.into_iter().find(|end| *end as u32 == number).unwrap_or(Self::FrameLimit)
    }
}

/// A frame of a walked stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Address in the process; the return address for callers.
    pub pc: u64,
    /// The pc is the instruction itself, not a return address.
    pub exact: bool,
    /// The caller was found by frame pointer.
    pub by_fp: bool,
    /// Stack pointer of the frame.
    pub sp: u64,
    /// Frame pointer register of the frame.
    pub fp: u64,
}

/// A walked stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Leaf first.
    pub frames: Vec<Frame>,
    /// How it ended.
    pub end: End,
    /// The number by which the kernel side tells stacks apart.
    pub hash: u64,
    /// How many of the outer frames were taken from the thread's last walk.
    pub matched_from_memo: usize,
}

impl Walk {
    /// Whether two walks say the same of the stack, wherever they took it from.
    #[must_use]
    pub fn same_stack(&self, other: &Self) -> bool {
        self.frames == other.frames && self.end == other.end && self.hash == other.hash
    }
}

/// A stack of native frames, and of Python's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonWalk {
    /// The native frames.
    pub native: Walk,
    /// The Python frames, innermost first.
    pub frames: Vec<PythonFrame>,
    /// How their walk ended.
    pub end: PythonEnd,
    /// The innermost call of the evaluator was not in the chain yet.
    pub half_linked: bool,
    /// Distinguishes stacks of Python frames.
    pub hash: u64,
    /// Code objects that were sent.
    pub sent: Vec<SentCode>,
    /// How many did not fit into the ring.
    pub unsent: u32,
    /// How many could not be read.
    pub unreadable: u32,
    /// Pieces of memory that were read for it.
    pub reads: u64,
}

/// A walk with a memo gave another result than the walk without.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{} frames ({:?}) with the memo, {} frames ({:?}) without",
    with_memo.frames.len(), with_memo.end, without.frames.len(), without.end
)]
pub struct Differs {
    /// With the memo.
    pub with_memo: Walk,
    /// Without it.
    pub without: Walk,
}

/// The walker with the state of one CPU: tables, the mappings of one process, memos.
pub struct Replay {
    pool: TablePool,
    mappings: u32,
    mapping_count: u32,
    state: State,
    seed: u64,
    with_memo: bool,
    probe: ReturnProbe,
    epoch: u32,
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

impl Replay {
    /// Without tables and mappings.
    #[must_use]
    pub fn new() -> Self {
        Self::over(TablePool::default())
    }

    /// Over a table pool of these words, whatever they are, with `mapping_count` mappings from word `mappings` on.
    #[must_use]
    pub fn over_words(words: &[u32], mappings: u32, mapping_count: u32) -> Self {
        let mut replay = Self::over(TablePool::of_words(words));
        replay.mappings = mappings;
        replay.mapping_count = mapping_count;
        replay
    }

    fn over(pool: TablePool) -> Self {
        Self {
            pool,
            mappings: 0,
            mapping_count: 0,
            state: State::new(),
            seed: 0x5eed,
            with_memo: true,
            probe: ReturnProbe::default(),
            epoch: 0,
        }
    }

    /// From now on nothing is remembered from an earlier epoch, and walks note which tables they use in this one.
    pub fn begin_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// From now on walks meet a function whose return is probed.
    pub fn probe_return(&mut self, probe: ReturnProbe) {
        self.probe = probe;
    }

    /// Whether walks use what is known from earlier ones, that is the thread's last stack and the rules of known pcs; at
    /// first they do.
    pub fn use_memo(&mut self, with_memo: bool) {
        self.with_memo = with_memo;
    }

    /// Adds a table, for mappings to name.
    ///
    /// # Errors
    /// The table pool is full, or the table has too many rules.
    pub fn add_table(&mut self, table: &Table) -> Result<TableId, Error> {
        tables::install(&mut self.pool, table).map(TableId)
    }

    /// The last epoch in which a walk used a table; 0: none did in an epoch.
    #[must_use]
    pub fn last_use(&self, table: TableId) -> u32 {
        self.pool.read(table.0 + 3).map_or(0, |number| self.state.last_use(number))
    }

    /// Sets the process's mappings, in any order. What was walked before counts as another generation only if
    /// [`Thread::generation`] says so.
    ///
    /// # Errors
    /// The table pool is full.
    pub fn set_mappings(&mut self, mappings: &[Mapping]) -> Result<(), Error> {
        let raw = |mapping: &Mapping| {
            let (kind, table) = match mapping.code {
                Code::Table(id) => (abi::MAPPING_TABLE, id.0),
                Code::FramePointers => (abi::MAPPING_FP, 0),
                Code::NotReady => (abi::MAPPING_NOT_READY, 0),
            };
            RawMapping { start: mapping.start, end: mapping.end, bias: mapping.bias, table, kind }
        };
        let mut raw: Vec<RawMapping> = mappings.iter().map(raw).collect();
        raw.sort_by_key(|mapping| mapping.start);
        self.mappings = tables::install_mappings(&mut self.pool, &raw)?;
        self.mapping_count = raw.len() as u32;
        Ok(())
    }

    /// Walks a stack.
    pub fn walk(&mut self, thread: &Thread, registers: &Registers, stack: &Stack) -> Walk {
        if !self.with_memo {
            self.state.forget();
        }
        let (state, input) = self.split(thread, registers, stack);
        result(state.walk(&input))
    }

    /// Walks a stack, and again without what is known from earlier walks.
    ///
    /// # Errors
    /// The two walks differ.
    pub fn walk_checked(
        &mut self,
        thread: &Thread,
        registers: &Registers,
        stack: &Stack,
    ) -> Result<Walk, Box<Differs>> {
        let with_memo = self.walk(thread, registers, stack);
        let (state, input) = self.split(thread, registers, stack);
        let without = result(state.again(&input));
        if with_memo.same_stack(&without) {
            Ok(with_memo)
        } else {
            Err(Box::new(Differs { with_memo, without }))
        }
    }

    /// Walks a stack, and in the middle, after some reads of that stack, another one: as a program that interrupts another
    /// program on the same CPU. The second walk is none if the first one reads less often.
    pub fn walk_interrupted(
        &mut self,
        (thread, registers, stack): (&Thread, &Registers, &Stack),
        (by_thread, by_registers, by_stack): (&Thread, &Registers, &Stack),
        reads: u64,
    ) -> (Walk, Option<Walk>) {
        let (state, input) = self.split(thread, registers, stack);
        let by = Input {
            stack: &by_stack.segments,
            registers: by_registers.by_number,
            thread_pointer: by_registers.thread_pointer,
            pc: by_registers.pc,
            exec_id: by_thread.exec_id,
            tid: by_thread.tid,
            generation: by_thread.generation,
            ..input
        };
        let (walk, by) = state.interrupted(&input, &by, reads);
        (result(walk), by.map(|(outcome, frames)| result((outcome, &frames))))
    }

    /// Walks a stack, and then the Python frames of the same thread. `ring_bytes` of code objects can be sent.
    pub fn walk_python(
        &mut self,
        thread: &Thread,
        registers: &Registers,
        memory: &Stack,
        python: &Python,
        ring_bytes: usize,
    ) -> PythonWalk {
        let (state, input) = self.split(thread, registers, memory);
        let (native, PythonResult { walk, frames, ring }) = state.python(&input, python, ring_bytes);
        PythonWalk {
            native: result(native),
            frames: frames.iter().map(python_frame).collect(),
            end: PythonEnd::ALL.into_iter().find(|end| *end as u32 == walk.end).unwrap_or(PythonEnd::Fault),
            half_linked: walk.flags & python::HALF_LINKED != 0,
            hash: walk.hash,
            sent: SentCode::all(&ring).unwrap_or_default(),
            unsent: walk.unsent,
            unreadable: walk.unreadable,
            reads: walk.reads,
        }
    }

    fn split<'a>(
        &'a mut self,
        thread: &Thread,
        registers: &Registers,
        stack: &'a Stack,
    ) -> (&'a mut State, Input<'a>) {
        let input = Input {
            chunks: &self.pool.chunks,
            stack: &stack.segments,
            registers: registers.by_number,
            thread_pointer: registers.thread_pointer,
            pc: registers.pc,
            seed: self.seed,
            exec_id: thread.exec_id,
            probe: self.probe,
            tid: thread.tid,
            generation: thread.generation,
            epoch: self.epoch,
            mappings: self.mappings,
            mapping_count: self.mapping_count,
        };
        (&mut self.state, input)
    }
}

fn result((outcome, frames): (Outcome, &[RawFrame])) -> Walk {
    Walk {
        frames: frames.iter().map(frame).collect(),
        end: End::of(outcome.end),
        hash: outcome.hash,
        matched_from_memo: outcome.matched as usize,
    }
}

fn frame(raw: &RawFrame) -> Frame {
    Frame {
        pc: raw.pc & abi::FRAME_PC,
        exact: raw.pc & abi::FRAME_EXACT != 0,
        by_fp: raw.pc & abi::FRAME_BY_FP != 0,
        sp: raw.sp,
        fp: raw.fp,
    }
}

fn python_frame(raw: &RawPythonFrame) -> PythonFrame {
    PythonFrame {
        code: raw.code,
        instruction: raw.instruction,
        stamp: raw.marks >> python::STAMP_SHIFT,
        outermost: raw.marks & python::OUTERMOST != 0,
    }
}
