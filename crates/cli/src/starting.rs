//! Shows on a terminal that the start waits for unwind tables, if it takes long.

use std::sync::mpsc::{RecvTimeoutError, channel};

use perfagent::Agent;

use crate::progress::{INTERVAL, Progress};

/// Calls `start` and draws how many tables are left.
pub fn while_starting<T>(agent: &Agent, start: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, started) = channel::<()>();
        scope.spawn(move || {
            let mut progress = Progress::new();
            while started.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let left = agent.tables_left();
                if left > 0 {
                    progress.show(&text(left));
                }
            }
        });
        let result = start();
        drop(done);
        result
    })
}

fn text(left: u64) -> String {
    format!("compiling unwind tables before the first sample, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_number_left() {
        assert_eq!(text(12), "compiling unwind tables before the first sample, 12 left");
    }
}
