//! The border to C: layouts and entry points of `native/walker.c`.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::abi::MAX_FRAMES;
use crate::python::{MAX_PYTHON_FRAMES, Python};
use crate::return_probe::ReturnProbe;
use crate::table_pool::Chunk;

#[repr(C)]
struct Segment {
    base: u64,
    size: u64,
    bytes: *const u8,
}

#[repr(C)]
struct Surroundings {
    chunks: *const Chunk,
    chunk_count: u64,
    segments: *const Segment,
    segment_count: u64,
    registers: [u64; 16],
    pc: u64,
    seed: u64,
    exec_id: u64,
    uprobes: u64,
    pending_at: u64,
    pending_return: u64,
    thread_pointer: u64,
    tid: u32,
    generation: u32,
    mappings: u32,
    mapping_count: u32,
    epoch: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) hash: u64,
    pub(crate) end: u32,
    pub(crate) total: u32,
    pub(crate) matched: u32,
    pub(crate) walked: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawFrame {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
}

/// A walk that interrupts another one.
#[repr(C)]
struct Interruption {
    surroundings: *const Surroundings,
    reads: u64,
    begun: u64,
    outcome: *mut Outcome,
    frames: *mut RawFrame,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawPythonFrame {
    pub(crate) code: u64,
    pub(crate) instruction: u32,
    pub(crate) marks: u32,
}

/// `struct python_call`.
#[repr(C)]
struct PythonCall {
    interpreter: *const Python,
    frames: *mut RawPythonFrame,
    ring: *mut u8,
    ring_bytes: u64,
    ring_used: u64,
    result: RawPythonWalk,
}

/// What a walk of Python's frames gives besides its frames and code objects.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawPythonWalk {
    pub(crate) reads: u64,
    pub(crate) hash: u64,
    pub(crate) end: u32,
    pub(crate) flags: u32,
    pub(crate) total: u32,
    pub(crate) unsent: u32,
    pub(crate) unreadable: u32,
    pad: u32,
}

/// The result of such a walk.
pub(crate) struct PythonResult {
    pub(crate) walk: RawPythonWalk,
    pub(crate) frames: Vec<RawPythonFrame>,
    /// Sections of code objects, each behind its length.
    pub(crate) ring: Vec<u8>,
}

type Walker = unsafe extern "C" fn(*mut c_void, *const Surroundings, *mut Outcome, *mut RawFrame);

unsafe extern "C" {
    fn replay_new() -> *mut c_void;
    fn replay_free(replay: *mut c_void);
    fn replay_forget(replay: *mut c_void);
    fn replay_last_use(replay: *const c_void, number: u32) -> u32;
    fn replay_walk(
        replay: *mut c_void,
        around: *const Surroundings,
        out: *mut Outcome,
        frames: *mut RawFrame,
    );
    fn replay_again(
        replay: *mut c_void,
        around: *const Surroundings,
        out: *mut Outcome,
        frames: *mut RawFrame,
    );
    fn replay_interrupted(
        replay: *mut c_void,
        around: *const Surroundings,
        out: *mut Outcome,
        frames: *mut RawFrame,
        by: *mut Interruption,
    );
    fn replay_python(
        replay: *mut c_void,
        around: *const Surroundings,
        out: *mut Outcome,
        frames: *mut RawFrame,
        call: *mut PythonCall,
    );
    fn replay_claim(claims: *mut u64) -> bool;
    fn replay_release(claims: *mut u64);
    fn replay_hash(seed: u64, values: *const u64, count: u64) -> u64;
    fn replay_first_values(schema: u32, values: *const u64, total: *mut [u64; VALUE_SLOTS]);
    fn replay_add_values(schema: u32, values: *const u64, total: *mut [u64; VALUE_SLOTS]);
    fn replay_sample_weight(size: u64, rate: u64) -> u64;
    fn replay_send_stack(pid: u32, end: u32, sampled: u32, now: u64, bytes: u64) -> u32;
    #[cfg(test)]
    static replay_numbers: [u64; 35];
}

/// `VALUE_SLOTS` of `bpf/abi/sums.h`.
const VALUE_SLOTS: usize = 3;

/// The values of a key after one occurrence, by a schema of `enum event_schema` of `bpf/abi/sums.h`.
#[must_use]
pub fn first_values(schema: u32, values: [u64; VALUE_SLOTS]) -> [u64; VALUE_SLOTS] {
    let mut total = [0; VALUE_SLOTS];
    // SAFETY: both have as many values as the C side reads and writes.
    unsafe { replay_first_values(schema, values.as_ptr(), &raw mut total) };
    total
}

/// Adds one more occurrence to the values of a key.
pub fn add_values(schema: u32, total: &mut [u64; VALUE_SLOTS], values: [u64; VALUE_SLOTS]) {
    // SAFETY: both have as many values as the C side reads and writes.
    unsafe { replay_add_values(schema, values.as_ptr(), total) };
}

/// The bytes that a sampled object of `size` bytes stands for, where an allocator takes a sample each `rate` bytes on average.
#[must_use]
pub fn sample_weight(size: u64, rate: u64) -> u64 {
    // SAFETY: it computes with its arguments alone.
    unsafe { replay_sample_weight(size, rate) }
}

/// See [`crate::send_stack`]. Not 0: the allowances refuse it.
pub(crate) fn send_stack(pid: u32, end: u32, sampled: bool, now_ns: u64, bytes: u64) -> u32 {
    // SAFETY: it uses its arguments and memory of the calling thread.
    unsafe { replay_send_stack(pid, end, sampled.into(), now_ns, bytes) }
}

/// The hash by which the programs tell stacks apart, of frames from the root on, with their marks.
#[must_use]
pub fn stack_hash(seed: u64, frames: &[u64]) -> u64 {
    // SAFETY: as many values as are said lie there, and are only read.
    unsafe { replay_hash(seed, frames.as_ptr(), frames.len() as u64) }
}

/// The word of a slot by which programs that can be preempted claim it (`bpf/claim.h`).
#[derive(Debug, Default)]
pub struct Claims(UnsafeCell<u64>);

// SAFETY: C changes the word by atomic additions alone, and reads it in one access.
unsafe impl Sync for Claims {}

impl Claims {
    /// Claims the slot. False: another program has it, or was trying at the same moment.
    #[must_use]
    pub fn claim(&self) -> bool {
        // SAFETY: the word lives as long as `self`.
        unsafe { replay_claim(self.0.get()) }
    }

    /// Releases the slot, which the caller has claimed.
    pub fn release(&self) {
        // SAFETY: the word lives as long as `self`.
        unsafe { replay_release(self.0.get()) }
    }
}

/// Everything that a walk depends on, besides the memos.
pub(crate) struct Input<'a> {
    pub(crate) chunks: &'a [Chunk],
    pub(crate) stack: &'a [(u64, Vec<u8>)],
    pub(crate) registers: [u64; 16],
    pub(crate) pc: u64,
    pub(crate) seed: u64,
    pub(crate) exec_id: u64,
    pub(crate) probe: ReturnProbe,
    pub(crate) thread_pointer: u64,
    pub(crate) tid: u32,
    pub(crate) generation: u32,
    pub(crate) mappings: u32,
    pub(crate) mapping_count: u32,
    pub(crate) epoch: u32,
}

/// The walker's state of one CPU, with its memos.
#[derive(Debug)]
pub(crate) struct State {
    state: NonNull<c_void>,
    /// Room for the frames of a walk.
    frames: Box<[RawFrame; MAX_FRAMES]>,
}

// SAFETY: the state is a plain block of memory without ties to a thread; what C keeps in thread-local variables is set
// at the start of each call and not used after it.
unsafe impl Send for State {}

impl State {
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing, gives null or zeroed memory of the state's size.
        let state = unsafe { replay_new() };
        match NonNull::new(state) {
            Some(state) => Self { state, frames: Box::new([RawFrame::default(); MAX_FRAMES]) },
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<c_void>()),
        }
    }

    pub(crate) fn forget(&mut self) {
        // SAFETY: the pointer comes from replay_new and is freed on drop only.
        unsafe { replay_forget(self.state.as_ptr()) }
    }

    /// The last epoch in which a walk used the table with this number.
    pub(crate) fn last_use(&self, number: u32) -> u32 {
        // SAFETY: as in `forget`; C only reads, at an index within its bounds.
        unsafe { replay_last_use(self.state.as_ptr(), number) }
    }

    /// A walk, with the thread's memo.
    pub(crate) fn walk(&mut self, input: &Input<'_>) -> (Outcome, &[RawFrame]) {
        self.call(replay_walk, input)
    }

    /// A walk without a memo, which leaves the memos as they are.
    pub(crate) fn again(&mut self, input: &Input<'_>) -> (Outcome, &[RawFrame]) {
        self.call(replay_again, input)
    }

    /// A walk that `by` interrupts after some reads of the stack; that one is in the state of another context. The second
    /// result is none if the walk reads less often.
    #[allow(clippy::type_complexity, reason = "two results of one kind")]
    pub(crate) fn interrupted(
        &mut self,
        input: &Input<'_>,
        by: &Input<'_>,
        reads: u64,
    ) -> ((Outcome, &[RawFrame]), Option<(Outcome, Box<[RawFrame]>)>) {
        let (segments, theirs) = (segments(input), segments(by));
        let (around, around_by) = (surroundings(input, &segments), surroundings(by, &theirs));
        let (mut outcome, mut of_by) = (Outcome::default(), Outcome::default());
        let mut frames_of_by = vec![RawFrame::default(); MAX_FRAMES];
        let mut interruption = Interruption {
            surroundings: &raw const around_by,
            reads,
            begun: 0,
            outcome: &raw mut of_by,
            frames: frames_of_by.as_mut_ptr(),
        };
        let (state, frames) = (self.state.as_ptr(), self.frames.as_mut_ptr());
        // SAFETY: as in `call`; what the interruption points to lives as long, and C writes to at most MAX_FRAMES frames.
        unsafe {
            replay_interrupted(state, &raw const around, &raw mut outcome, frames, &raw mut interruption);
        }
        frames_of_by.truncate(of_by.total as usize);
        let by = (interruption.begun != 0).then(|| (of_by, frames_of_by.into_boxed_slice()));
        ((outcome, &self.frames[..outcome.total as usize]), by)
    }

    /// A walk, and then one of the Python frames of the same thread; the ring has room for so many bytes.
    pub(crate) fn python(
        &mut self,
        input: &Input<'_>,
        python: &Python,
        ring_bytes: usize,
    ) -> ((Outcome, &[RawFrame]), PythonResult) {
        let segments = segments(input);
        let around = surroundings(input, &segments);
        let mut outcome = Outcome::default();
        let mut frames = vec![RawPythonFrame::default(); MAX_PYTHON_FRAMES];
        let mut ring = vec![0; ring_bytes];
        let mut call = PythonCall {
            interpreter: python,
            frames: frames.as_mut_ptr(),
            ring: ring.as_mut_ptr(),
            ring_bytes: ring.len() as u64,
            ring_used: 0,
            result: RawPythonWalk::default(),
        };
        let (state, native) = (self.state.as_ptr(), self.frames.as_mut_ptr());
        // SAFETY: as in `call`; C writes to at most MAX_PYTHON_FRAMES frames and to the bytes of the ring, and only reads the
        // interpreter.
        unsafe { replay_python(state, &raw const around, &raw mut outcome, native, &raw mut call) };
        frames.truncate(call.result.total as usize);
        ring.truncate(call.ring_used as usize);
        let python = PythonResult { walk: call.result, frames, ring };
        ((outcome, &self.frames[..outcome.total as usize]), python)
    }

    fn call(&mut self, walker: Walker, input: &Input<'_>) -> (Outcome, &[RawFrame]) {
        let segments = segments(input);
        let around = surroundings(input, &segments);
        let mut outcome = Outcome::default();
        // SAFETY: all pointers are to live memory of the lengths given beside them, and C writes to the state, to
        // `outcome` and to at most MAX_FRAMES frames only. The walker checks or masks every index.
        unsafe { walker(self.state.as_ptr(), &raw const around, &raw mut outcome, self.frames.as_mut_ptr()) };
        (outcome, &self.frames[..outcome.total as usize])
    }
}

fn segments(input: &Input<'_>) -> Vec<Segment> {
    let segment = |(base, bytes): &(u64, Vec<u8>)| Segment {
        base: *base,
        size: bytes.len() as u64,
        bytes: bytes.as_ptr(),
    };
    input.stack.iter().map(segment).collect()
}

fn surroundings(input: &Input<'_>, segments: &[Segment]) -> Surroundings {
    Surroundings {
        chunks: input.chunks.as_ptr(),
        chunk_count: input.chunks.len() as u64,
        segments: segments.as_ptr(),
        segment_count: segments.len() as u64,
        registers: input.registers,
        pc: input.pc,
        seed: input.seed,
        exec_id: input.exec_id,
        uprobes: input.probe.page,
        pending_at: input.probe.at,
        pending_return: input.probe.to,
        thread_pointer: input.thread_pointer,
        tid: input.tid,
        generation: input.generation,
        mappings: input.mappings,
        mapping_count: input.mapping_count,
        epoch: input.epoch,
        pad: 0,
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from replay_new, and nobody has it after this.
        unsafe { replay_free(self.state.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::End;
    use crate::{abi, python};

    #[test]
    fn both_sides_have_the_same_numbers() {
        // SAFETY: a constant array of this length.
        let native = unsafe { replay_numbers };
        let ends = [
            End::Root,
            End::NoMapping,
            End::NoRow,
            End::UnsupportedRule,
            End::FpChain,
            End::Fault,
            End::FrameLimit,
            End::TableNotReady,
            End::StackSwitch,
            End::ZeroFrame,
        ];
        let mut numbers = vec![
            u64::from(abi::CHUNK_WORDS),
            u64::from(abi::MAX_CHUNKS),
            abi::MAX_RULES as u64,
            MAX_FRAMES as u64,
            abi::FRAME_EXACT,
            abi::FRAME_BY_FP,
            abi::FRAME_PC,
            u64::from(abi::MAPPING_TABLE),
            u64::from(abi::MAPPING_FP),
            u64::from(abi::MAPPING_NOT_READY),
        ];
        numbers.extend(ends.map(|end| end as u64));
        numbers.extend([
            size_of::<Surroundings>() as u64,
            size_of::<Outcome>() as u64,
            size_of::<RawFrame>() as u64,
            size_of::<Segment>() as u64,
            size_of::<Interruption>() as u64,
            size_of::<[u64; VALUE_SLOTS]>() as u64,
            MAX_PYTHON_FRAMES as u64,
            u64::from(python::OUTERMOST),
            u64::from(python::STAMP_SHIFT),
            u64::from(python::HALF_LINKED),
            python::CODE_OBJECT,
            size_of::<RawPythonFrame>() as u64,
            python::CODE_BYTES as u64,
            size_of::<Python>() as u64,
            size_of::<PythonCall>() as u64,
        ]);
        assert_eq!(numbers, native);
    }
}
