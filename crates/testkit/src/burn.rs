//! CPU time for a profiler to see.

use std::time::{Duration, Instant};

/// Keeps the calling thread busy for this long by the wall clock.
pub fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::black_box(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_as_long_as_asked() {
        let start = Instant::now();
        burn(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
