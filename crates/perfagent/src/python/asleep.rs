//! The functions of threads that sleep since before the capture. The programs in the kernel see a thread when it goes to sleep; of these, the
//! memory of the process tells.
//!
//! What is read makes sense only of threads that have not run meanwhile.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use interpreters::python::slot::ThreadState;
use interpreters::python::{Layout, Slot, chain};
use kernel::{CodeMessage, InterpretedFrame};

/// Threads of a process that are looked at.
pub(super) const MAX_THREADS: usize = 4096;
/// Where glibc keeps a thread's number, from its thread pointer on.
const TID: u64 = 0x2d0;
/// Threads that are not read after this time have none of their functions.
const PATIENCE: Duration = Duration::from_millis(200);

/// What was read of the threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Asleep {
    /// The frames of a thread, innermost first, by its number in the innermost PID namespace, and whether they are all.
    pub(crate) threads: HashMap<u32, (Vec<InterpretedFrame>, bool)>,
    /// The code objects of these frames.
    pub(crate) codes: Vec<CodeMessage>,
}

/// Reads the frames of these threads, among all states.
pub(super) fn read_asleep(
    layout: &Layout,
    states: &[ThreadState],
    slot: &Slot,
    tids: &HashSet<u32>,
    read: impl Fn(u64, usize) -> Vec<u8>,
) -> Asleep {
    let until = Instant::now() + PATIENCE;
    let mut asleep = Asleep::default();
    let mut known: HashSet<u64> = HashSet::new();
    for state in states {
        if Instant::now() > until {
            break;
        }
        let tid = read(state.thread_id.wrapping_add(TID), 4);
        let Some(tid) = tid.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { continue };
        if !tids.contains(&tid) || asleep.threads.contains_key(&tid) {
            continue;
        }
        let Some(address) = slot.value(state.thread_id, &read).filter(|address| *address != 0) else {
            continue;
        };
        let Some(chain) = chain::walk(layout, address, &read) else { continue };
        let is_new = |frame: &&chain::ChainFrame| frame.code != 0;
        for frame in chain.frames.iter().filter(is_new) {
            if known.insert(frame.code)
                && let Some(code) = chain::code(layout, frame.code, &read)
            {
                asleep.codes.push(message(frame.code, code));
            }
        }
        let frames = chain.frames.into_iter().map(interpreted).collect();
        asleep.threads.insert(tid, (frames, chain.is_whole));
    }
    asleep
}

/// The stamp 0 is that of these frames and their code objects alone.
fn interpreted(frame: chain::ChainFrame) -> InterpretedFrame {
    InterpretedFrame {
        code: frame.code,
        instruction: frame.instruction,
        outermost: frame.outermost,
        stamp: 0,
    }
}

fn message(address: u64, code: chain::Code) -> CodeMessage {
    CodeMessage {
        pid: 0,
        exec_id: 0,
        address,
        stamp: 0,
        first_line: code.first_line,
        name: code.name,
        file: code.file,
        line_table: code.line_table,
        truncated: false,
    }
}
