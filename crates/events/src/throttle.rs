//! The time for which the kernel throttled an event, from its throttle records.

use sys::perf::{RECORD_THROTTLE, RECORD_UNTHROTTLE};

/// Adds up the intervals between throttle and unthrottle records of one event.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    since_ns: Option<u64>,
    total_ns: u64,
}

impl Throttle {
    /// Reads a record of the event's ring. Records other than throttle records change nothing.
    pub fn record(&mut self, record: &[u8]) {
        let kind = record.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let time = record.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        match (kind, time) {
            (Some(RECORD_THROTTLE), Some(time)) => {
                self.since_ns.get_or_insert(time);
            }
            (Some(RECORD_UNTHROTTLE), Some(time)) => {
                if let Some(since) = self.since_ns.take() {
                    self.total_ns = self.total_ns.saturating_add(time.saturating_sub(since));
                }
            }
            _ => {}
        }
    }

    /// The sum. An open interval counts up to `now_ns`.
    pub fn total_ns(&self, now_ns: u64) -> u64 {
        let open = self.since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        self.total_ns.saturating_add(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, time: u64) -> Vec<u8> {
        [&kind.to_ne_bytes()[..], &[0; 4], &time.to_ne_bytes(), &[0; 16]].concat()
    }

    #[test]
    fn closed_and_open_intervals_are_added_up() {
        let mut throttle = Throttle::default();
        for (kind, time) in [(5, 100), (6, 130), (6, 140), (9, 150), (5, 200), (5, 210), (6, 250), (5, 300)] {
            throttle.record(&record(kind, time));
        }
        throttle.record(&[5, 0, 0]);
        assert_eq!(throttle.total_ns(300), 30 + 50);
        assert_eq!(throttle.total_ns(340), 30 + 50 + 40);
        throttle.record(&record(6, 0));
        assert_eq!(throttle.total_ns(400), 80, "a time before the begin of the interval adds zero");
    }
}
