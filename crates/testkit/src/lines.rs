//! Lines that a child process prints, awaited with a deadline.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::PATIENCE;

/// The lines of an output. It is read to its end, whether they are asked for or not.
#[derive(Debug)]
pub struct Lines(Receiver<String>);

impl Lines {
    /// Reads an output from now on.
    pub fn of(output: impl Read + Send + 'static) -> Self {
        let (send, lines) = channel();
        thread::spawn(move || {
            // Nobody may ask any more.
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Self(lines)
    }

    /// The next line, within a minute.
    ///
    /// # Panics
    /// If the output ends before, or if none comes.
    #[track_caller]
    pub fn next(&self) -> String {
        self.next_within(PATIENCE)
    }

    #[track_caller]
    fn next_within(&self, limit: Duration) -> String {
        match self.0.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => panic!("the output has ended without a line"),
            Err(RecvTimeoutError::Timeout) => panic!("not within {} s: a line", limit.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::Process;

    fn lines_of(script: &str) -> (Process, Lines) {
        let mut process =
            Process::start(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap();
        let lines = Lines::of(process.stdout.take().unwrap());
        (process, lines)
    }

    #[test]
    fn lines_come_in_their_order() {
        let (_process, lines) = lines_of("echo one; echo two");
        assert_eq!([lines.next(), lines.next()], ["one", "two"]);
    }

    #[test]
    #[should_panic(expected = "the output has ended")]
    fn the_end_is_no_line() {
        lines_of("exit").1.next();
    }

    #[test]
    #[should_panic(expected = "not within 0 s")]
    fn nobody_waits_without_end() {
        let (_process, lines) = lines_of("exec sleep 600");
        lines.next_within(Duration::from_millis(20));
    }
}
