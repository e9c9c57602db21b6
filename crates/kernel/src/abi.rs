//! The Rust side of `bpf/abi.h`: numbers and layouts, taken from or held equal to the types that the skeleton finds
//! in the object's BTF. What the kernel side says is checked here and turned into types of this crate.

use skeleton::types;
use unwind::Rule;

use crate::{KernelMapping, RecordedProcess};

/// Generated from the object.
#[allow(
    missing_docs,
    dead_code,
    unused,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
#[allow(non_camel_case_types, unsafe_op_in_unsafe_fn, unnameable_types)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/perf_agent.skel.rs"));
}

pub(crate) const CHUNK_WORDS: u32 = 1 << 14;
pub(crate) const CHUNK_BYTES: usize = 4 * CHUNK_WORDS as usize;
pub(crate) const MAX_RULES: usize = 32_768;
pub(crate) const MAPPING_WORDS: u32 = (size_of::<types::mapping>() / 4) as u32;

const _: () = {
    assert!(size_of::<types::rule>() == size_of::<Rule>());
    assert!(size_of::<types::mapping>() == 32);
    assert!(size_of::<types::proc>() == 24);
    assert!(size_of::<types::message>() == 64);
    assert!(size_of::<types::life>() == 40);
    assert!(size_of::<types::life_counts>() == 16);
    assert!(size_of::<types::total>() == 24);
    assert!(size_of::<types::woken>() == 16);
    assert!(size_of::<types::section>() == 8);
    assert!(size_of::<types::raw_stack>() == 8);
    assert!(size_of::<types::seam_record>() == 40);
    assert!(unwind::abi::cfa::UNSUPPORTED as u32 == types::cfa_kind::CFA_UNSUPPORTED.0);
    assert!(unwind::abi::cfa::PLT as u32 == types::cfa_kind::CFA_PLT.0);
    assert!(unwind::abi::cfa::FP_DEREF as u32 == types::cfa_kind::CFA_FP_DEREF.0);
    assert!(unwind::abi::cfa::SP_DEREF as u32 == types::cfa_kind::CFA_SP_DEREF.0);
    assert!(unwind::abi::ra::REG as u32 == types::ra_kind::RA_REG.0);
    assert!(unwind::abi::ra::UNDEFINED as u32 == types::ra_kind::RA_UNDEFINED.0);
    assert!(unwind::abi::fp::UNDEFINED as u32 == types::fp_kind::FP_UNDEFINED.0);
    assert!(unwind::abi::fp::FP as u32 == types::fp_kind::FP_FP.0);
};

pub(crate) const MESSAGE_STACK: u32 = types::message_kind::MESSAGE_STACK.0;
pub(crate) const MESSAGE_PROC: u32 = types::message_kind::MESSAGE_PROC.0;
pub(crate) const MESSAGE_RAW: u32 = types::message_kind::MESSAGE_RAW.0;
pub(crate) const MESSAGE_WOKEN: u32 = types::message_kind::MESSAGE_WOKEN.0;
pub(crate) const MESSAGE_STILL_ASLEEP: u32 = types::message_kind::MESSAGE_STILL_ASLEEP.0;
/// `PROC_WAKER` of `bpf/abi.h`.
pub(crate) const PROC_WAKER: u16 = 4;
/// Those of `enum control_word` that user space writes.
pub(crate) mod control {
    use super::types::control_word;

    pub(crate) const CHANGED_BY_USER_SPACE: u32 = control_word::CONTROL_CHANGED_BY_USER_SPACE.0;
    pub(crate) const SIDE_CHANGES: u32 = control_word::CONTROL_SIDE_CHANGES.0;
    /// By side.
    pub(crate) const SEAM_NS: u32 = control_word::CONTROL_SEAM_NS.0;
    pub(crate) const PREVIOUS_SEAM_NS: u32 = control_word::CONTROL_PREVIOUS_SEAM_NS.0;
    pub(crate) const STATS_CHANGES: u32 = control_word::CONTROL_STATS_CHANGES.0;
    pub(crate) const FOLLOWED_FROM_NS: u32 = control_word::CONTROL_FOLLOWED_FROM_NS.0;
    pub(crate) const FOLLOWED_TO_NS: u32 = control_word::CONTROL_FOLLOWED_TO_NS.0;
    pub(crate) const GATHERED_SEAM_NS: u32 = control_word::CONTROL_GATHERED_SEAM_NS.0;
}
/// Places for counters.
pub const COUNTERS: usize = types::counter::COUNTERS.0 as usize;
pub(crate) const WALK_ENDS: usize = types::walk_end::WALK_ENDS.0 as usize;

/// Indices of `struct counters`.
pub(crate) enum Counter {
    Samples = types::counter::COUNT_SAMPLES.0 as isize,
    LostRingFull = types::counter::COUNT_LOST_RING_FULL.0 as isize,
    LostMapFull = types::counter::COUNT_LOST_MAP_FULL.0 as isize,
    LostNoMemory = types::counter::COUNT_LOST_NO_MEMORY.0 as isize,
    OutsideNamespace = types::counter::COUNT_OUTSIDE_NAMESPACE.0 as isize,
    MemoHits = types::counter::COUNT_MEMO_HITS.0 as isize,
    MemoChecked = types::counter::COUNT_MEMO_CHECKED.0 as isize,
    MemoDiffered = types::counter::COUNT_MEMO_DIFFERED.0 as isize,
    Frames = types::counter::COUNT_FRAMES.0 as isize,
    StacksSent = types::counter::COUNT_STACKS_SENT.0 as isize,
    RequestsLost = types::counter::COUNT_REQUESTS_LOST.0 as isize,
    ProcessesLost = types::counter::COUNT_PROCS_LOST.0 as isize,
    Deferred = types::counter::COUNT_DEFERRED.0 as isize,
    FramesWalked = types::counter::COUNT_FRAMES_WALKED.0 as isize,
    SkippedMinBlock = types::counter::COUNT_SKIPPED_MIN_BLOCK.0 as isize,
    SkippedMinBlockNs = types::counter::COUNT_SKIPPED_MIN_BLOCK_NS.0 as isize,
    ThreadsLost = types::counter::COUNT_THREADS_LOST.0 as isize,
    WakersLost = types::counter::COUNT_WAKERS_LOST.0 as isize,
    LostBusy = types::counter::COUNT_LOST_BUSY.0 as isize,
    LostUnseen = types::counter::COUNT_LOST_UNSEEN.0 as isize,
    SwitchesLost = types::counter::COUNT_SWITCHES_LOST.0 as isize,
    CameUnseen = types::counter::COUNT_CAME_UNSEEN.0 as isize,
    ReadsFailed = types::counter::COUNT_READS_FAILED.0 as isize,
    LifetimeNs = types::counter::COUNT_LIFETIME_NS.0 as isize,
    Walks = types::counter::COUNT_WALKS.0 as isize,
    SeamsLost = types::counter::COUNT_SEAMS_LOST.0 as isize,
}

/// How the walk of a user stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalkEnd {
    /// At the outermost frame.
    Root = types::walk_end::WALK_ROOT.0 as isize,
    /// A pc in no executable mapping.
    NoMapping = types::walk_end::WALK_NO_MAPPING.0 as isize,
    /// The file has tables, none covers the pc, and the frame pointer did not help.
    NoRow = types::walk_end::WALK_NO_ROW.0 as isize,
    /// A rule outside of what the walker evaluates.
    UnsupportedRule = types::walk_end::WALK_UNSUPPORTED_RULE.0 as isize,
    /// A frame pointer or CFA not above the last one.
    FpChain = types::walk_end::WALK_FP_CHAIN.0 as isize,
    /// Stack memory not readable.
    Fault = types::walk_end::WALK_FAULT.0 as isize,
    /// More frames than are kept.
    FrameLimit = types::walk_end::WALK_FRAME_LIMIT.0 as isize,
    /// A table still being made.
    TableNotReady = types::walk_end::WALK_TABLE_NOT_READY.0 as isize,
    /// No user registers, or of 32-bit code.
    NoRegisters = types::walk_end::WALK_NO_REGISTERS.0 as isize,
    /// A thread of the kernel's, which has no user stack; also one inside of a process, as for io_uring.
    NoUserStack = types::walk_end::WALK_NONE.0 as isize,
    /// A thread that has given back its memory on its way out, or to the next program.
    Exiting = types::walk_end::WALK_EXITING.0 as isize,
}

impl WalkEnd {
    /// All of them.
    pub const ALL: [Self; WALK_ENDS] = [
        Self::Root,
        Self::NoMapping,
        Self::NoRow,
        Self::UnsupportedRule,
        Self::FpChain,
        Self::Fault,
        Self::FrameLimit,
        Self::TableNotReady,
        Self::NoRegisters,
        Self::NoUserStack,
        Self::Exiting,
    ];

    /// Whether there was no user stack to walk.
    #[must_use]
    pub fn is_no_walk(self) -> bool {
        matches!(self, Self::NoUserStack | Self::Exiting)
    }
}

impl TryFrom<u32> for WalkEnd {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|end| *end as u32 == number).ok_or(number)
    }
}

/// What the sums of a stack are sums of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Samples of a running thread.
    Sampled = types::off_state::OFF_NONE.0 as isize,
    /// Time asleep, in any way that is not `IoWait`.
    Blocked = types::off_state::OFF_BLOCKED.0 as isize,
    /// Time in uninterruptible sleep that adds to load.
    IoWait = types::off_state::OFF_IOWAIT.0 as isize,
    /// Time in which the thread could have run, but had no CPU.
    Preempted = types::off_state::OFF_PREEMPTED.0 as isize,
    /// Time on a CPU, of a process or thread; without frames.
    OnCpu = 4,
    /// None: it is the stack of who wakes others.
    Waker = 5,
    /// The same; the kernel frames tell whether it was an interrupt, or work that a system call had put off.
    WakerInSoftirq = 6,
    /// As `Preempted`: from the making of a thread to its first moment on a CPU.
    NotRunYet = 7,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Sampled,
        Self::Blocked,
        Self::IoWait,
        Self::Preempted,
        Self::OnCpu,
        Self::Waker,
        Self::WakerInSoftirq,
        Self::NotRunYet,
    ];

    /// What the sums under a key are of: `KEY_STATE` of `bpf/abi.h`. The programs give no key with another number; it would
    /// count as [`Self::Sampled`].
    #[must_use]
    pub fn of_key(key: u64) -> Self {
        Self::try_from((key & 0xf) as u32).unwrap_or(Self::Sampled)
    }

    /// Whether it is the stack of who wakes others.
    #[must_use]
    pub fn is_waker(self) -> bool {
        matches!(self, Self::Waker | Self::WakerInSoftirq)
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl TryFrom<u32> for State {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|state| *state as u32 == number).ok_or(number)
    }
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Event {
    /// The sampler's clock: a count is a sample.
    Clock = types::event::EVENT_CLOCK.0 as isize,
    /// The scheduler: a count is a stretch of a thread.
    Scheduler = types::event::EVENT_SCHEDULER.0 as isize,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Clock, Self::Scheduler];

    /// What counts under a key: `KEY_EVENT_SHIFT` of `bpf/abi.h`. None: the programs give no such key.
    #[must_use]
    pub fn of_key(key: u64) -> Option<Self> {
        Self::try_from((key >> 4 & 0xf) as u32).ok()
    }
}

impl TryFrom<u32> for Event {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|event| *event as u32 == number).ok_or(number)
    }
}

/// How code in a mapping is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingKind {
    /// By the table at this address in the table pool; made by [`KernelMapping::with_table`].
    Table(u32),
    /// By frame pointers: there is no unwind information.
    FramePointers,
    /// Not yet: the table is being made.
    NotReady,
}

/// A user frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Address in the process; the return address for callers.
    pub pc: u64,
    /// The pc is the instruction itself, not a return address.
    pub exact: bool,
    /// The caller was found by frame pointer.
    pub by_frame_pointer: bool,
}

impl Frame {
    /// FRAME_EXACT, FRAME_BY_FP and FRAME_PC of abi.h.
    pub(crate) fn from_raw(word: u64) -> Self {
        Self { pc: word & FRAME_PC, exact: word >> 63 == 1, by_frame_pointer: word >> 62 & 1 == 1 }
    }
}

/// `USER_ADDRESS_BITS` of `abi.h`: above are marks.
const FRAME_PC: u64 = (1 << if cfg!(target_arch = "aarch64") { 48 } else { 57 }) - 1;

/// `struct message`, field by field.
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) end: u32,
    pub(crate) hash: u64,
    pub(crate) exec_id: u64,
    pub(crate) bytes: u32,
    pub(crate) state: u16,
    pub(crate) event: u16,
    thread: [u8; 16],
    pub(crate) time: u64,
}

impl Header {
    /// The head of a message and the bytes after it.
    pub(crate) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_at_checked(size_of::<types::message>())?;
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        let u16_at = |at: usize| Some(u16::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        use std::mem::offset_of;
        let header = Self {
            kind: u32_at(offset_of!(types::message, kind))?,
            pid: u32_at(offset_of!(types::message, pid))?,
            tid: u32_at(offset_of!(types::message, tid))?,
            end: u32_at(offset_of!(types::message, end))?,
            hash: u64_at(offset_of!(types::message, hash))?,
            exec_id: u64_at(offset_of!(types::message, exec_id))?,
            bytes: u32_at(offset_of!(types::message, bytes))?,
            state: u16_at(offset_of!(types::message, state))?,
            event: u16_at(offset_of!(types::message, event))?,
            thread: *header.get(offset_of!(types::message, thread)..)?.first_chunk()?,
            time: u64_at(offset_of!(types::message, time))?,
        };
        Some((header, rest))
    }

    pub(crate) fn thread(&self) -> String {
        let name = self.thread.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// DWARF number of the stack pointer, in `RawStack::registers`.
pub(crate) const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 31 } else { 7 };

/// Those of [`RawStack::registers`](crate::RawStack::registers).
pub(crate) const REGISTERS: usize = unwind::full::REGISTERS;
const _: () = assert!(std::mem::offset_of!(types::raw_registers, pc) == REGISTERS * 8);

/// `struct mapping` in words.
pub(crate) fn mapping_words(mapping: &KernelMapping) -> [u32; MAPPING_WORDS as usize] {
    let (kind, table) = match mapping.kind {
        MappingKind::Table(address) => (types::mapping_kind::MAPPING_TABLE, address),
        MappingKind::FramePointers => (types::mapping_kind::MAPPING_FP, 0),
        MappingKind::NotReady => (types::mapping_kind::MAPPING_NOT_READY, 0),
    };
    let low = |value: u64| value as u32;
    let high = |value: u64| (value >> 32) as u32;
    [
        low(mapping.start),
        high(mapping.start),
        low(mapping.end),
        high(mapping.end),
        low(mapping.bias),
        high(mapping.bias),
        table,
        kind.0,
    ]
}

/// `struct proc`.
pub(crate) fn proc_bytes(mappings: u32, count: u32, generation: u32, flags: u16, exec_id: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&mappings.to_ne_bytes());
    bytes[4..8].copy_from_slice(&count.to_ne_bytes());
    bytes[8..12].copy_from_slice(&generation.to_ne_bytes());
    bytes[12..14].copy_from_slice(&flags.to_ne_bytes());
    bytes[16..].copy_from_slice(&exec_id.to_ne_bytes());
    bytes
}

/// `exec_id` of a `struct proc`.
pub(crate) fn proc_exec_id(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(std::mem::offset_of!(types::proc, exec_id)..)?.first_chunk()?))
}

/// A key and a value of `procs`.
pub(crate) fn recorded_process(key: &[u8], value: &[u8]) -> Option<RecordedProcess> {
    let flags = u16::from_ne_bytes(*value.get(std::mem::offset_of!(types::proc, flags)..)?.first_chunk()?);
    let pid = u32::from_ne_bytes(*key.first_chunk()?);
    Some(RecordedProcess { pid, exec_id: proc_exec_id(value)?, waker_only: flags & PROC_WAKER != 0 })
}
