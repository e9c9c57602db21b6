//! Reports the search for names after the capture, if it takes long.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use perfagent::Agent;

use crate::messages;
use crate::signals::Interrupts;

/// Time before the first line and between two lines.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two looks whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Calls `stop`. If that takes long, prints how many names are left: repeatedly on a terminal, else once. The first signal after the last name
/// gives up the FIFOs that have no reader.
pub fn while_stopping<T>(agent: &Agent, interrupts: &Interrupts, stop: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, stopped) = channel::<()>();
        let was_interrupted = interrupts.stop.is_cancelled();
        scope.spawn(move || {
            let (mut due, mut is_told) = (Instant::now() + PATIENCE, false);
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let left = agent.names_left();
                if left == Some(0) && !was_interrupted && interrupts.stop.is_cancelled() {
                    interrupts.abandon.cancel();
                }
                let left = left.filter(|left| *left > 0 && !interrupts.abandon.is_cancelled());
                if let Some(left) = left.filter(|_| !is_told && Instant::now() >= due) {
                    messages::note(&text(left, interrupts.stop.is_cancelled()));
                    is_told = !std::io::stderr().is_terminal();
                    due = Instant::now() + PATIENCE;
                }
            }
        });
        let result = stop();
        drop(done);
        result
    })
}

fn text(left: u64, was_interrupted: bool) -> String {
    let how = if was_interrupted { "interrupt again" } else { "interrupt twice" };
    format!("sampling has ended; {left} code locations still have no name; {how} to write them as addresses")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_number_left_and_how_to_stop() {
        assert!(text(4711, false).contains("4711 code locations"));
        assert!(text(1, false).contains("interrupt twice") && text(1, true).contains("interrupt again"));
    }
}
