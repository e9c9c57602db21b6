//! Waiting for a condition, never forever.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for an event that is immediate on an idle machine.
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
/// If it does not hold until then; `what` is the condition in words.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    must_hold_within(PATIENCE, what, condition);
}

#[track_caller]
fn must_hold_within(limit: Duration, what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, condition), "not within {} s: {what}", limit.as_secs());
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
        let begun = Instant::now();
        assert!(!holds_within(Duration::from_millis(20), || false));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    #[should_panic(expected = "not within 0 s: a sign")]
    fn waiting_in_vain_is_a_failure_that_says_for_what() {
        must_hold_within(Duration::ZERO, "a sign", || false);
    }
}
