//! libbpf's messages: sends them to `tracing`, and keeps the last ones for error reports.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use libbpf_rs::PrintLevel;

const KEPT: usize = 64;

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn last() -> MutexGuard<'static, VecDeque<String>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print(level: PrintLevel, message: String) {
    let message = message.trim_end();
    tracing::debug!(target: "perfagent", ?level, "{message}");
    // libbpf blames RLIMIT_MEMLOCK when CAP_BPF is missing. The error that follows names the true cause.
    if message.contains("RLIMIT_MEMLOCK") {
        return;
    }
    let mut last = last();
    if last.len() == KEPT {
        last.pop_front();
    }
    last.push_back(message.to_owned());
}

/// Redirects libbpf's messages from stderr to this file, once per process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, print)));
    });
    last().clear();
}

/// The last messages, oldest first.
pub(crate) fn recent() -> String {
    last().iter().fold(String::new(), |text, line| text + line + "\n")
}
