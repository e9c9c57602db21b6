//! Skipping a test, with a line that `make test` counts.
//!
//! libtest has no word for a test that finds out at run time that it cannot run here. Such a test prints a line instead.
//! `tools/test.py` reads the line, does not count the test as passed, and fails for a reason that `tools/expected-skips.txt` does not list.

use std::fmt::Display;

/// Prints that the test of the calling thread cannot run here, or not all of it. The name of a test is that of its thread.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    println!("{}", line(thread.name().unwrap_or("?"), &reason.to_string()));
}

/// The line, also for a reason of several lines.
fn line(test: &str, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    format!("skipped: {test}: {}", words.join(" "))
}

/// Prints why the test cannot run here, and returns from it.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::skipped(format_args!($($reason)+));
        return;
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(line("a::b", "no  tool:\n\tnot found\n"), "skipped: a::b: no tool: not found");
    }
}
