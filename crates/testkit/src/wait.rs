//! Waiting for a condition, never forever.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what comes at once on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for a condition; false if it did not hold within the limit.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// Waits for a condition for up to a minute.
///
/// # Panics
/// If it does not hold until then; `what` says what was waited for.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, condition), "not within {} s: {what}", PATIENCE.as_secs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_condition_or_the_limit() {
        let mut looks = 0;
        assert!(holds_within(PATIENCE, || {
            looks += 1;
            looks == 3
        }));
        assert_eq!(looks, 3);
        assert!(!holds_within(Duration::from_millis(20), || false));
    }
}
