//! The head of a message in the ring: `struct message`. Sections follow it; see `sections.rs`.

use crate::abi::skeleton::types;

pub(crate) const MESSAGE_STACK: u32 = types::message_kind::MESSAGE_STACK.0;
pub(crate) const MESSAGE_PROC: u32 = types::message_kind::MESSAGE_PROC.0;
pub(crate) const MESSAGE_RAW: u32 = types::message_kind::MESSAGE_RAW.0;
pub(crate) const MESSAGE_WOKEN: u32 = types::message_kind::MESSAGE_WOKEN.0;
pub(crate) const MESSAGE_LOCK: u32 = types::message_kind::MESSAGE_LOCK.0;
pub(crate) const MESSAGE_SAMPLE: u32 = types::message_kind::MESSAGE_SAMPLE.0;
pub(crate) const MESSAGE_STACK_PART: u32 = types::message_kind::MESSAGE_STACK_PART.0;
pub(crate) const MESSAGE_CODE: u32 = types::message_kind::MESSAGE_CODE.0;
pub(crate) const MESSAGE_INTERPRETED: u32 = types::message_kind::MESSAGE_INTERPRETED.0;
pub(crate) const MESSAGE_STILL_ASLEEP: u32 = types::message_kind::MESSAGE_STILL_ASLEEP.0;

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
    /// Splits a message into its header and the rest.
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

/// Index of the stack pointer in `RawStack::registers`: its DWARF number.
pub(crate) const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 31 } else { 7 };

/// Number of [`RawStack::registers`](crate::RawStack::registers).
pub(crate) const REGISTERS: usize = unwind::full::REGISTERS;
const _: () = assert!(std::mem::offset_of!(types::raw_registers, pc) == REGISTERS * 8);
