//! Interpreters of Python in processes: the map `pythons`. A process has the number of its interpreter in its record in `procs`; a child
//! has that of its parent until it executes another program.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use interpreters::python::{Family, Layout, Slot, slot};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::Avma;

use crate::Error;
use crate::abi::skeleton::types;

/// Elements of the map: distinct interpreters in processes at one time.
pub(crate) const MAX_PYTHONS: u32 = 1024;
/// Code objects that the programs remember to have sent.
pub(crate) const MAX_SENT_CODES: u32 = 16_384;

const EVALUATORS: usize = 3;
/// `PYTHON_STATE_BYTES`, `PYTHON_FRAME_BYTES` and `PYTHON_CODE_BYTES` of `bpf/abi/python.h`.
const STATE_BYTES: u32 = 192;
const FRAME_BYTES: u32 = 128;
const CODE_BYTES: u32 = 112;

/// An interpreter in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// Where it keeps its data.
    pub layout: Layout,
    /// Address of `_PyRuntime`.
    pub runtime: Avma,
    /// Where threads keep their state.
    pub slot: Slot,
    /// The code of the evaluator; the programs use the first three ranges.
    pub evaluator: Vec<Range<Avma>>,
    /// Of it, the code before the first opcode.
    pub before_dispatch: Option<Range<Avma>>,
}

impl Python {
    /// The `struct python`. `None`: the programs cannot follow such a layout.
    fn record(&self) -> Option<types::python> {
        let layout = &self.layout;
        let short = |value: u32| u16::try_from(value).ok();
        let within = |at: u32, bytes: u32, limits: Range<u32>| {
            let end = at.checked_add(bytes)?;
            if at >= limits.start && end <= limits.end { short(at) } else { None }
        };
        let of_state = |at| within(at, 8, 0..STATE_BYTES);
        let of_frame = |at, bytes| within(at, bytes, 0..layout.frame_bytes);
        let fields = [layout.code_first_line, layout.code_filename, layout.code_name, layout.code_line_table];
        let code_from = fields.into_iter().min()?;
        let of_code = |at, bytes| within(at, bytes, code_from..code_from.checked_add(CODE_BYTES)?);
        let heap_frames = layout.family == Family::HeapFrames;
        if layout.frame_bytes > FRAME_BYTES {
            return None;
        }
        let distance = |offset: u32| i32::try_from(offset).ok();
        let (slot_table, slot_block, slot) = match self.slot {
            Slot::Near { offset } => (0, 0, offset),
            Slot::Far { table, offset } => (table, 0, distance(offset)?),
            Slot::Block { entry, offset } => (slot::VECTOR, entry, distance(offset)?),
        };
        let mut evaluator = self.evaluator.iter().map(range).chain(std::iter::repeat_with(no_range));
        Some(types::python {
            runtime: self.runtime.0,
            evaluator: [(); EVALUATORS].map(|()| evaluator.next().unwrap_or_else(no_range)),
            before_dispatch: self.before_dispatch.as_ref().map_or_else(no_range, range),
            slot_table,
            slot_block,
            slot,
            interp_code_counter: layout.interp_code_counter,
            interp_copies_counter: layout.interp_copies_counter,
            runtime_tstate_current: short(layout.runtime_tstate_current)?,
            family: layout.family as u16,
            tagged: layout.tagged_pointers.into(),
            tstate_interp: of_state(layout.tstate_interp)?,
            tstate_thread_id: of_state(layout.tstate_thread_id)?,
            tstate_frame: of_state(layout.tstate_frame)?,
            tstate_base_frame: of_state(layout.tstate_base_frame)?,
            cframe_current_frame: short(layout.cframe_current_frame)?,
            frame_previous: of_frame(layout.frame_previous, 8)?,
            frame_code: of_frame(layout.frame_code, 8)?,
            frame_instruction: of_frame(layout.frame_instruction, if heap_frames { 4 } else { 8 })?,
            frame_entry: of_frame(layout.frame_entry, 1)?,
            frame_copy: if layout.code_copies == 0 { 0 } else { of_frame(layout.frame_copy, 4)? },
            frame_bytes: short(layout.frame_bytes)?,
            code_first_unit: short(layout.code_first_unit)?,
            code_copies: short(layout.code_copies)?,
            code_from: short(code_from)?,
            code_first_line: of_code(layout.code_first_line, 4)?,
            code_version: if layout.code_version == 0 { 0 } else { of_code(layout.code_version, 4)? },
            code_filename: of_code(layout.code_filename, 8)?,
            code_name: of_code(layout.code_name, 8)?,
            code_line_table: of_code(layout.code_line_table, 8)?,
            str_length: short(layout.str_length)?,
            str_state: short(layout.str_state)?,
            str_kind_shift: short(layout.str_kind_shift)?,
            str_ascii_bytes: short(layout.str_ascii_bytes)?,
            str_wide_bytes: short(layout.str_wide_bytes)?,
            bytes_length: short(layout.bytes_length)?,
            bytes_bytes: short(layout.bytes_bytes)?,
            unused: 0,
        })
    }
}

fn range(of: &Range<Avma>) -> types::python_range {
    types::python_range { start: of.start.0, end: of.end.0 }
}

fn no_range() -> types::python_range {
    types::python_range { start: 0, end: 0 }
}

/// The bytes of a `struct python`.
fn bytes_of(record: &types::python) -> Vec<u8> {
    // SAFETY: `record` is a live value of integers, without padding: the fields add up to its size, which abi.rs asserts.
    unsafe { std::slice::from_raw_parts((&raw const *record).cast::<u8>(), size_of::<types::python>()) }
        .to_vec()
}

/// The map `pythons`. Equal interpreters, as those of forked processes, share an element.
pub(crate) struct Pythons {
    map: MapHandle,
    numbers: HashMap<Vec<u8>, u16>,
    free: Vec<u16>,
}

impl Pythons {
    pub(crate) fn new(map: MapHandle) -> Self {
        let free = (1..=map.max_entries().min(MAX_PYTHONS) as u16).rev().collect();
        Self { map, numbers: HashMap::new(), free }
    }

    /// The number of an interpreter for a `struct proc`: its index + 1. 0: the programs cannot follow it, or there is no room. `used`
    /// gives the numbers that processes have; it is asked only if there is no room for another one.
    pub(crate) fn number(&mut self, python: &Python, used: impl Fn() -> HashSet<u16>) -> Result<u16, Error> {
        let Some(record) = python.record() else { return Ok(0) };
        let bytes = bytes_of(&record);
        if let Some(number) = self.numbers.get(&bytes) {
            return Ok(*number);
        }
        if self.free.is_empty() {
            let used = used();
            let free = &mut self.free;
            self.numbers.retain(|_, number| {
                let keeps = used.contains(number);
                free.extend((!keeps).then_some(*number));
                keeps
            });
        }
        let Some(number) = self.free.pop() else { return Ok(0) };
        let index = u32::from(number - 1).to_ne_bytes();
        if let Err(source) = self.map.update(&index, &bytes, MapFlags::ANY) {
            self.free.push(number);
            return Err(Error::Map { action: "enter an interpreter into", map: "pythons", source });
        }
        self.numbers.insert(bytes, number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interpreters::python::Version;

    fn python() -> Python {
        let version = Version { major: 3, minor: 11, micro: 2 };
        Python {
            layout: Layout::of(version).expect("it is known"),
            runtime: Avma(0x1000),
            slot: Slot::Near { offset: 0x318 },
            evaluator: vec![Avma(0x2000)..Avma(0x3000), Avma(0x5000)..Avma(0x6000)],
            before_dispatch: Some(Avma(0x2000)..Avma(0x2010)),
        }
    }

    #[test]
    fn the_record_has_the_places_of_the_layout() {
        let record = python().record().expect("the programs can follow it");
        assert_eq!((record.tstate_frame, record.frame_entry, record.code_name), (56, 68, 128));
        assert_eq!((record.slot_table, record.slot_block, record.slot, record.family), (0, 0, 0x318, 1));
        assert_eq!((record.code_from, record.tstate_base_frame, record.code_copies), (72, 0, 0));
        let ranges = record.evaluator.map(|range| (range.start, range.end));
        assert_eq!(ranges, [(0x2000, 0x3000), (0x5000, 0x6000), (0, 0)]);
    }

    #[test]
    fn a_layout_that_reaches_beyond_what_is_read_is_not_followed() {
        let with = |change: fn(&mut Layout)| {
            let mut python = python();
            change(&mut python.layout);
            python.record().is_some()
        };
        assert!(with(|_| {}));
        assert!(!with(|layout| layout.tstate_frame = STATE_BYTES - 7));
        assert!(!with(|layout| layout.frame_bytes = FRAME_BYTES + 1));
        assert!(!with(|layout| layout.frame_code = layout.frame_bytes));
        assert!(!with(|layout| layout.code_name = layout.code_first_line + CODE_BYTES - 7));
        assert!(!with(|layout| layout.code_version = layout.code_first_line - 4));
        assert!(!with(|layout| layout.code_line_table = u32::MAX));
    }
}
