//! Process life as the programs report it: fork, exec, exit and new names of recorded processes, in the order of the ring.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;
use crate::abi::skeleton::types;

/// What happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The process, in the agent's PID namespace.
    pub pid: u32,
    /// When it happened, on CLOCK_MONOTONIC. The time of a fork or exec is the exec_id of the process from then on; see
    /// [`KernelProcess::exec_id`](crate::KernelProcess::exec_id).
    pub time_ns: u64,
    /// What happened.
    pub event: LifeEvent,
}

/// A kind of [`Life`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LifeEvent {
    /// The process was forked by `parent`.
    Fork {
        /// The process that forked; 0 if it does not exist in the agent's PID namespace.
        parent: u32,
    },
    /// It runs a new program, and has this name from then on.
    Exec {
        /// The name.
        comm: String,
    },
    /// Its last thread ended; it had this name.
    Exit {
        /// The name.
        comm: String,
        /// Its parent, if [`Kernel::tell_all_lives`](crate::Kernel::tell_all_lives) was on; else 0.
        parent: u32,
    },
    /// It has another name from then on.
    Rename {
        /// The name.
        comm: String,
    },
    /// It changes its name too often for single reports. Read its name at `time_ns`, which lies in the future, or later.
    LookAgain,
}

/// The programs' counts of process life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifeCounts {
    /// Records that did not fit into the ring.
    pub lost: u64,
    /// New names that were not reported because the process had changed its name just before.
    pub names_skipped: u64,
}

pub(crate) const MESSAGE_LIFE: u32 = types::message_kind::MESSAGE_LIFE.0;

/// Decodes a message of kind [`MESSAGE_LIFE`].
pub(crate) fn decode(bytes: &[u8]) -> Option<Life> {
    let record = bytes.get(..size_of::<types::life>())?;
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    let time = record.get(offset_of!(types::life, time)..)?.first_chunk()?;
    let comm = record.get(offset_of!(types::life, comm)..)?.split(|byte| *byte == 0).next()?;
    let comm = String::from_utf8_lossy(comm).into_owned();
    let parent = u32_at(offset_of!(types::life, parent))?;
    let event = match types::life_event(u32_at(offset_of!(types::life, event))?) {
        types::life_event::LIFE_FORK => LifeEvent::Fork { parent },
        types::life_event::LIFE_EXEC => LifeEvent::Exec { comm },
        types::life_event::LIFE_EXIT => LifeEvent::Exit { comm, parent },
        types::life_event::LIFE_RENAME => LifeEvent::Rename { comm },
        types::life_event::LIFE_LOOK_AGAIN => LifeEvent::LookAgain,
        _ => return None,
    };
    Some(Life { pid: u32_at(offset_of!(types::life, pid))?, time_ns: u64::from_ne_bytes(*time), event })
}

/// Reads the counts.
pub(crate) fn counts(map: &MapHandle) -> Result<LifeCounts, Error> {
    let failed = |source| Error::Map { action: "read", map: "life_counts", source };
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?.unwrap_or_default();
    let at =
        |at: usize| value.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u64::from_ne_bytes(*n));
    Ok(LifeCounts {
        lost: at(offset_of!(types::life_counts, lost)),
        names_skipped: at(offset_of!(types::life_counts, names_skipped)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: u32) -> Vec<u8> {
        let numbers = [MESSAGE_LIFE, event, 7, 3].map(u32::to_ne_bytes).concat();
        [&numbers[..], &99u64.to_ne_bytes(), b"a name\0\0\0\0\0\0\0\0\0\0"].concat()
    }

    #[test]
    fn records_are_read_and_unknown_or_short_ones_are_refused() {
        let comm = || "a name".to_owned();
        let events = [
            LifeEvent::Fork { parent: 3 },
            LifeEvent::Exec { comm: comm() },
            LifeEvent::Exit { comm: comm(), parent: 3 },
            LifeEvent::Rename { comm: comm() },
            LifeEvent::LookAgain,
        ];
        for (number, event) in (1..).zip(events) {
            assert_eq!(decode(&record(number)), Some(Life { pid: 7, time_ns: 99, event }));
        }
        assert_eq!(decode(&record(0)), None);
        assert_eq!(decode(&record(6)), None);
        assert_eq!(decode(&record(1)[..39]), None);
    }
}
