//! The progress line: on a terminal only, redrawn at most five times per second.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::console::console;

/// Shortest time between two drawings.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// A line on standard error that is redrawn.
pub struct Progress {
    terminal: bool,
    drawn: Option<Instant>,
}

impl Progress {
    /// Draws only if standard error is a terminal, and not with `--quiet`.
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() && !console().quiet, drawn: None }
    }

    /// Draws the state of a capture.
    pub fn draw(&mut self, samples: u64, lost: u64, left: Option<Duration>) {
        self.show(&text(samples, lost, left));
    }

    /// Draws the line, unless it was drawn less than [`INTERVAL`] ago.
    pub fn show(&mut self, text: &str) {
        let fresh = self.drawn.is_some_and(|drawn| drawn.elapsed() < INTERVAL);
        if self.terminal && !fresh {
            let _closed_is_fine = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
            self.drawn = Some(Instant::now());
        }
    }

    /// Removes the line, so that messages start at the left.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _closed_is_fine = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn text(samples: u64, lost: u64, left: Option<Duration>) -> String {
    let left = match left {
        Some(left) => format!("{} left", seconds(left)),
        None => "until the command ends".to_owned(),
    };
    format!("{samples} samples, {lost} lost, {left}")
}

/// Whole seconds, rounded up: the last second counts down to nothing.
fn seconds(left: Duration) -> String {
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    live::length(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_samples_losses_and_time_left() {
        assert_eq!(text(4711, 2, Some(Duration::from_millis(8_001))), "4711 samples, 2 lost, 9s left");
        assert_eq!(text(0, 0, None), "0 samples, 0 lost, until the command ends");
        assert_eq!(seconds(Duration::from_secs(61)), "1m01s");
        assert_eq!(seconds(Duration::from_secs(7_260)), "2h01m");
        assert_eq!(seconds(Duration::ZERO), "0s");
    }
}
