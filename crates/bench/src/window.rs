//! Windows of a program that counts its own work: lines `count WORK WALL CPU`, about twenty in a second.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use truth::target::Target;

/// Work per second of wall clock and of CPU time during the next seconds.
///
/// # Errors
/// If the program does not count on.
pub(crate) fn window(target: &Target, seconds: f64) -> Result<(f64, f64)> {
    drop(target.pending_lines());
    thread::sleep(Duration::from_secs_f64(seconds));
    let counts: Vec<[f64; 3]> = target.pending_lines().iter().filter_map(|line| read_count(line)).collect();
    let (first, last) = (counts.first().context("no counts")?, counts.last().context("no counts")?);
    let work = last[0] - first[0];
    ensure!(work > 0.0, "the program did not count on");
    Ok((work / (last[1] - first[1]), work / (last[2] - first[2])))
}

/// CPU time for one piece of work during the next seconds, in ns.
///
/// # Errors
/// As [`window`].
pub(crate) fn cpu_window(target: &Target, seconds: f64) -> Result<f64> {
    Ok(1.0 / window(target, seconds)?.1)
}

fn read_count(line: &str) -> Option<[f64; 3]> {
    let mut words = line.strip_prefix("count ")?.split(' ').map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(read_count("count 5 10 8"), Some([5.0, 10.0, 8.0]));
        assert_eq!(read_count("ready"), None);
    }
}
