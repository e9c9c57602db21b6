//! Processes with several threads, which a capture leaves alone.
//!
//! Beside threads that wait for the interpreter's lock while signals come, a call sometimes left a program waiting for good. The causes are not all
//! known. A process with one thread has nobody to wait for.

use crate::obstacle::threads;
use crate::refusal::{Refusal, Token};
use crate::target::Target;

/// Why a process is left alone, if it has several threads. What is wrong with it otherwise comes first.
pub(crate) fn refusal(pid: u32) -> Option<Refusal> {
    let threads = threads(pid);
    if threads <= 1 {
        return None;
    }
    let several = || {
        let cause = format!(
            "it has {threads} threads; only processes with one thread are switched, as others may be left waiting for good"
        );
        Refusal::new(Token::Other, cause)
    };
    Some(Target::find(pid).err().unwrap_or_else(several))
}
