//! Signals: the first ends the capture early, the second ends the search for names, the third ends the process. `SIGXFSZ` does nothing: a
//! write beyond the limit of file sizes is an error of that output alone.

use std::io;
use std::sync::Arc;

use perfagent::{CancelToken, TemporaryFiles};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::{messages, screen};

/// The effects of signals.
#[derive(Clone, Default)]
pub struct Interrupts {
    /// Cancelled by the first signal: start and capture end early.
    pub stop: CancelToken,
    /// Cancelled by the second signal: symbolization ends early.
    pub abandon: CancelToken,
    /// Removed by the third signal.
    pub temporary_files: TemporaryFiles,
    /// The exit status after the third signal.
    failed: u8,
}

impl Interrupts {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on. `failed`: the exit status after the third of them. A SIGHUP that was ignored stays ignored, for nohup(1).
    pub fn install(failed: u8) -> io::Result<Self> {
        let interrupts = Self { failed, ..Self::default() };
        let mut handled = vec![SIGINT, SIGTERM];
        if !is_ignored(SIGHUP) {
            handled.push(SIGHUP);
        }
        // A handler without effect: exec(2) resets handlers, so a command starts with the disposition that this process was given.
        if !is_ignored(SIGXFSZ) {
            signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        }
        let mut signals = Signals::new(handled)?;
        let effects = interrupts.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for (number, _) in (1u64..).zip(signals.forever()) {
                effects.react(number);
            }
        })?;
        Ok(interrupts)
    }

    fn react(&self, number: u64) {
        match number {
            1 => self.stop.cancel(),
            2 => {
                self.abandon.cancel();
                messages::warning("symbolization is abandoned: the rest is written as addresses", None);
            }
            _ => {
                self.temporary_files.remove_all();
                screen::restore();
                messages::error("ended by the third signal; unfinished outputs are not written", None);
                std::process::exit(self.failed.into());
            }
        }
    }
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_second_signal() {
        let interrupts = Interrupts::default();
        interrupts.react(1);
        assert!(interrupts.stop.is_cancelled() && !interrupts.abandon.is_cancelled());
        interrupts.react(2);
        assert!(interrupts.abandon.is_cancelled());
    }

    #[test]
    fn ignored_signals_are_read_from_proc() {
        assert!(is_ignored(signal_hook::consts::SIGPIPE));
        assert!(!is_ignored(signal_hook::consts::SIGSEGV));
    }
}
