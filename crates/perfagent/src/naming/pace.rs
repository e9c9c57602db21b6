//! How often a runtime is asked for its perf map.

use std::time::{Duration, Instant};

/// Between two requests: at first, and at most. In between it doubles. A map costs a JVM about 1 ms for 1000 methods.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The requests to one program so far: the last one and the pause after it.
#[derive(Default)]
pub(super) struct Pace(Option<(Instant, Duration)>);

impl Pace {
    /// Whether it is time for a request; then the pause after the next one is longer. `is_last`: there is no later moment.
    pub(super) fn is_due(&mut self, now: Instant, is_last: bool) -> bool {
        let waits = |(at, pause): (Instant, Duration)| now.saturating_duration_since(at) < pause;
        if !is_last && self.0.is_some_and(waits) {
            return false;
        }
        let pause = self.0.map_or(FIRST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
        self.0 = Some((now, pause));
        true
    }

    /// Whether there was a request.
    pub(super) fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_with_growing_pauses_and_one_at_the_end() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        assert!(!pace.has_begun());
        let mut due = |seconds, is_last| pace.is_due(begin + Duration::from_secs(seconds), is_last);
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 8].map(|at| due(at, false)),
            [true, true, false, true, false, true, false]
        );
        assert!(due(8, true) && pace.has_begun());
        let mut pace = Pace(Some((begin, LONGEST_PAUSE)));
        assert!(pace.is_due(begin + LONGEST_PAUSE, false));
        assert_eq!(pace.0, Some((begin + LONGEST_PAUSE, LONGEST_PAUSE)));
    }
}
