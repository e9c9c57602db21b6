//! A stack that was sent unwalked: registers, and the bytes of the user stack that were copied when the sample was taken.

use crate::attached::SampledAt;
use crate::headers::{REGISTERS, STACK_POINTER};
use crate::sections::StackBytes;
use crate::stack_message::StackMessage;

/// `SMALLEST_PAGE` of `bpf/walk_state.h`.
const PAGE: u64 = 4096;
/// `RAW_STACK_BYTES` of `bpf/abi/raw_stack.h`.
const RAW_STACK_BYTES: usize = 60 << 10;
/// `RAW_STACK_END` of `bpf/abi/raw_stack.h`: the copy ends in front of this many pages that are not readable.
const UNREADABLE_PAGES: u64 = 4;
/// `RED_ZONE` of `bpf/abi/raw_stack.h`.
const RED_ZONE: u64 = 128;

/// A sample whose stack could not be walked yet, with the data to walk it later. If its hash is not 0, its sums come under
/// that hash; else it counts as one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawStack {
    /// The sample without user frames. Its `end` is the end of the attempted walk.
    pub stack: StackMessage,
    /// User registers by DWARF number.
    pub registers: [u64; REGISTERS],
    /// User pc.
    pub pc: u64,
    /// Where the sample was taken. Without meaning for a thread that was asleep.
    pub at: SampledAt,
    /// The value of the sample, if its event has one; else 0.
    pub value: u64,
    /// A copy of the user stack, from the red zone on.
    copy: Copied,
    /// Of a stack that is longer, its other end, and its address.
    begin: Option<Box<(u64, Copied)>>,
}

/// Bytes of a user stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    bytes: Vec<u8>,
    /// One bit for each page of the copy that was not readable.
    holes: u64,
}

impl Copied {
    pub(crate) fn of(copied: StackBytes<'_>) -> Self {
        Self { bytes: copied.bytes.to_vec(), holes: copied.holes }
    }

    /// The word at an address, if the bytes begin at `start`; none if it was not readable.
    fn word(&self, start: u64, address: u64) -> Option<u64> {
        let at = address.checked_sub(start)?;
        let piece = |address: u64| address / PAGE - start / PAGE;
        let hole = |address: u64| self.holes.checked_shr(piece(address) as u32).unwrap_or(0) & 1 == 1;
        if hole(address) || hole(address.checked_add(7)?) {
            return None;
        }
        Some(u64::from_ne_bytes(*self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?))
    }
}

impl RawStack {
    pub(crate) fn new(
        stack: StackMessage,
        registers: [u64; REGISTERS],
        pc: u64,
        at: SampledAt,
        copy: Copied,
    ) -> Self {
        Self { stack, registers, pc, at, value: 0, copy, begin: None }
    }

    /// The same with the value of the sample.
    pub(crate) fn with_value(self, value: u64) -> Self {
        Self { value, ..self }
    }

    /// Adds the bytes where the thread began, which lie at `start`.
    pub(crate) fn add_begin(&mut self, start: u64, bytes: Copied) {
        self.begin = Some(Box::new((start, bytes)));
    }

    fn begin(&self) -> Option<&(u64, Copied)> {
        self.begin.as_deref()
    }

    /// The word of the stack at an address; none if it was not readable.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let begin = || self.begin().and_then(|(start, bytes)| bytes.word(*start, address));
        self.copy.word(self.bottom(), address).or_else(begin)
    }

    /// Number of stack bytes in the copy.
    #[must_use]
    pub fn len(&self) -> usize {
        self.copy.bytes.len() + self.begin().map_or(0, |(_, begin)| begin.bytes.len())
    }

    /// Whether the stack is longer than the copy, which ends when the next page does not fit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.begin.is_some() || self.copy.bytes.len() + 2 * PAGE as usize > RAW_STACK_BYTES
    }

    /// Whether the memory at an address was copied, or could not be. Other memory may be readable: that behind the end of a copy
    /// that is cut, and other stacks.
    #[must_use]
    pub fn was_tried(&self, address: u64) -> bool {
        let behind = if self.is_cut() { 0 } else { UNREADABLE_PAGES * PAGE };
        let holds = |start: u64, length: u64| address.checked_sub(start).is_some_and(|at| at < length);
        holds(self.bottom(), self.copy.bytes.len() as u64 + behind)
            || self.begin().is_some_and(|(start, begin)| holds(*start, begin.bytes.len() as u64))
    }

    /// Address of the first byte of the copy.
    #[must_use]
    pub fn bottom(&self) -> u64 {
        self.registers[STACK_POINTER].wrapping_sub(RED_ZONE)
    }

    /// Sets the stack bytes, read from the process from [`Self::bottom`] on.
    pub fn fill(&mut self, bytes: Vec<u8>) {
        self.copy = Copied { bytes, holes: 0 };
    }

    /// Whether the copy is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attached::Attached;
    use crate::sum_key::{Event, State};
    use crate::walk_end::WalkEnd;

    /// Without bytes.
    fn raw_stack(sp: u64) -> RawStack {
        let stack = StackMessage {
            hash: 0,
            pid: 10,
            tid: 11,
            exec_id: 99,
            end: WalkEnd::TableNotReady,
            event: Event::Clock,
            state: State::Sampled,
            thread: String::new(),
            time_ns: 0,
            kernel: Vec::new(),
            user: Vec::new(),
            attached: Box::new(Attached::default()),
        };
        let mut registers = [0; REGISTERS];
        registers[STACK_POINTER] = sp;
        RawStack::new(stack, registers, 0, SampledAt::default(), Copied::default())
    }

    #[test]
    fn only_the_copied_memory_and_the_pages_behind_it_were_tried() {
        let mut raw = raw_stack(0x10_0080);
        raw.fill(vec![1; 0x1000]);
        let tried = |raw: &RawStack, addresses: [u64; 4]| addresses.map(|address| raw.was_tried(address));
        assert_eq!(tried(&raw, [0xf_ffff, 0x10_0000, 0x10_4fff, 0x10_5000]), [false, true, true, false]);
        // Behind a copy that is cut nothing was tried.
        raw.fill(vec![1; RAW_STACK_BYTES]);
        assert_eq!(tried(&raw, [0xf_ffff, 0x10_0000, 0x10_efff, 0x10_f000]), [false, true, true, false]);
    }

    #[test]
    fn of_a_long_stack_both_ends_are_known_and_what_lies_between_is_not() {
        let mut raw = raw_stack(0x10_0080);
        raw.fill(vec![1; 0x1000]);
        assert!(!raw.is_cut());
        // Its first page was never touched.
        raw.add_begin(0x20_0000, Copied { bytes: [vec![0; 0x1000], vec![2; 0x800]].concat(), holes: 1 });
        assert_eq!((raw.word(0x10_0ff8), raw.word(0x10_1000)), (Some(0x0101_0101_0101_0101), None));
        assert_eq!((raw.word(0x20_0ff8), raw.word(0x20_1000)), (None, Some(0x0202_0202_0202_0202)));
        assert_eq!((raw.word(0x20_17f8), raw.word(0x20_1800)), (Some(0x0202_0202_0202_0202), None));
        let tried = [0x10_0fff, 0x10_1000, 0x1f_ffff, 0x20_0000, 0x20_17ff, 0x20_1800];
        assert_eq!(tried.map(|address| raw.was_tried(address)), [true, false, false, true, true, false]);
        assert!(raw.is_cut() && raw.len() == 0x2800);
    }
}
