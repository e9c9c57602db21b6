//! What is said while names are looked up after the capture: nothing as long as that is quick.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use perfagent::Agent;

use crate::messages;
use crate::signals::Interrupts;

/// Before the first line, and between two.
const PATIENCE: Duration = Duration::from_secs(3);

/// Calls `stop`, and says how many names are left when that takes long: on a terminal again and again, else once.
pub fn while_stopping<T>(agent: &Agent, interrupts: &Interrupts, stop: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, stopped) = channel::<()>();
        scope.spawn(move || {
            while stopped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let left = agent.names_left().filter(|left| *left > 0 && !interrupts.abandon.is_cancelled());
                if let Some(left) = left {
                    messages::line(&text(left, interrupts.stop.is_cancelled()));
                    if !std::io::stderr().is_terminal() {
                        break;
                    }
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
    format!(
        "nothing is attached any more; {left} places in code are still to be named; {how} to write them as addresses"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_left_and_what_ends_it() {
        assert!(text(4711, false).contains("4711 places in code"));
        assert!(text(1, false).contains("interrupt twice") && text(1, true).contains("interrupt again"));
    }
}
