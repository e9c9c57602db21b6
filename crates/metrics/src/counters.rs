//! What perf events counted.

/// The unit of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterUnit {
    /// Events.
    #[default]
    Events,
    /// Nanoseconds.
    Nanoseconds,
}

impl CounterUnit {
    /// As written in reports; empty for events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "",
            Self::Nanoseconds => "ns",
        }
    }
}

/// The result of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterState {
    /// It was counted for all or part of the time.
    #[non_exhaustive]
    Counted {
        /// Events counted while it ran.
        value: u64,
        /// Time for which it was enabled, in ns, summed over threads or CPUs.
        enabled_ns: u64,
        /// Time for which it ran, in ns: less than `enabled_ns` if it shared the hardware with other counters.
        running_ns: u64,
    },
    /// The machine or the permissions do not allow this event.
    #[non_exhaustive]
    NotAvailable {
        /// Why.
        reason: String,
    },
    /// The event can be counted, but the counter never ran.
    NotCounted,
}

impl CounterState {
    /// A reading from the kernel. A counter that never ran is not counted, which differs from zero.
    #[must_use]
    pub fn read(value: u64, enabled_ns: u64, running_ns: u64) -> Self {
        if running_ns == 0 { Self::NotCounted } else { Self::Counted { value, enabled_ns, running_ns } }
    }

    /// The state of an event that cannot be counted here.
    #[must_use]
    pub fn not_available(reason: impl Into<String>) -> Self {
        Self::NotAvailable { reason: reason.into() }
    }

    /// Scaled to the whole time: value x enabled / running, rounded. None for an event that was not counted.
    #[must_use]
    pub fn scaled_value(&self) -> Option<u64> {
        let Self::Counted { value, enabled_ns, running_ns } = *self else { return None };
        if running_ns == 0 {
            return None;
        }
        if running_ns >= enabled_ns {
            return Some(value);
        }
        let (enabled, running) = (u128::from(enabled_ns), u128::from(running_ns));
        let scaled = (u128::from(value) * enabled + running / 2) / running;
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The part of the time for which it ran, in percent; none if the value was not scaled.
    #[must_use]
    pub fn measured_pct(&self) -> Option<f64> {
        match *self {
            Self::Counted { enabled_ns, running_ns, .. } if running_ns < enabled_ns => {
                Some(100.0 * running_ns as f64 / enabled_ns as f64)
            }
            _ => None,
        }
    }

    /// Adds another state. If only one of the two was counted, the sum is that one.
    fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (
                Self::Counted { value, enabled_ns, running_ns },
                Self::Counted { value: more, enabled_ns: more_enabled, running_ns: more_running },
            ) => {
                *value = value.saturating_add(*more);
                *enabled_ns = enabled_ns.saturating_add(*more_enabled);
                *running_ns = running_ns.saturating_add(*more_running);
            }
            (Self::NotCounted, _) | (Self::NotAvailable { .. }, Self::Counted { .. }) => {
                *self = other.clone()
            }
            (Self::NotAvailable { .. } | Self::Counted { .. }, _) => {}
        }
    }
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counter {
    /// Name of the event as the user wrote it.
    pub name: String,
    /// Its unit.
    pub unit: CounterUnit,
    /// Its result.
    pub state: CounterState,
}

impl Counter {
    /// A counter.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: CounterUnit, state: CounterState) -> Self {
        Self { name: name.into(), unit, state }
    }
}

/// All counters of a process or of a whole capture, in the order in which the user named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HardwareCounters {
    /// One for each event.
    pub events: Vec<Counter>,
}

impl HardwareCounters {
    /// Contains these counters.
    #[must_use]
    pub fn new(events: Vec<Counter>) -> Self {
        Self { events }
    }

    /// The counter of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Counter> {
        self.events.iter().find(|counter| counter.name == name)
    }

    /// Instructions per cycle; none unless both were counted and there was a cycle.
    #[must_use]
    pub fn ipc(&self) -> Option<f64> {
        self.ratio("instructions", "cycles")
    }

    /// Cache misses per 1,000 instructions; none unless both were counted and there was an instruction.
    #[must_use]
    pub fn cache_misses_per_1k(&self) -> Option<f64> {
        self.ratio("cache-misses", "instructions").map(|ratio| 1000.0 * ratio)
    }

    fn ratio(&self, part: &str, whole: &str) -> Option<f64> {
        let value = |name| self.get(name)?.state.scaled_value();
        let (part, whole) = (value(part)?, value(whole)?);
        (whole > 0).then(|| part as f64 / whole as f64)
    }

    /// Adds the counters of another, event by event.
    pub fn merge(&mut self, other: &Self) {
        for counter in &other.events {
            match self.events.iter_mut().find(|mine| mine.name == counter.name) {
                Some(mine) => mine.state.merge(&counter.state),
                None => self.events.push(counter.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, value: u64, enabled: u64, running: u64) -> Counter {
        Counter::new(name, CounterUnit::Events, CounterState::read(value, enabled, running))
    }

    #[test]
    fn scales_by_time() {
        assert_eq!(CounterState::read(10, 100, 100).scaled_value(), Some(10));
        assert_eq!(CounterState::read(10, 100, 50).scaled_value(), Some(20));
        assert_eq!(CounterState::read(10, 100, 50).measured_pct(), Some(50.0));
        assert_eq!(CounterState::read(1, 3, 2).scaled_value(), Some(2), "rounded, not cut");
        assert_eq!(CounterState::read(u64::MAX, u64::MAX, 1).scaled_value(), Some(u64::MAX));
        assert_eq!(CounterState::read(0, 100, 0), CounterState::NotCounted);
        assert_eq!(CounterState::NotCounted.scaled_value(), None);
        assert_eq!(CounterState::read(0, 100, 100).scaled_value(), Some(0));
    }

    #[test]
    fn ratios_need_both_parts() {
        let mut counters =
            HardwareCounters::new(vec![counted("cycles", 500, 10, 5), counted("instructions", 2000, 10, 10)]);
        assert_eq!(counters.ipc(), Some(2.0), "of scaled values");
        assert_eq!(counters.cache_misses_per_1k(), None);
        counters.events.push(counted("cache-misses", 3, 10, 10));
        assert_eq!(counters.cache_misses_per_1k(), Some(1.5));
        counters.events[1].state = CounterState::NotCounted;
        assert_eq!((counters.ipc(), counters.cache_misses_per_1k()), (None, None));
        counters.events[0] = counted("cycles", 0, 10, 10);
        counters.events[1] = counted("instructions", 5, 10, 10);
        assert_eq!(counters.ipc(), None, "no division by zero");
    }

    #[test]
    fn sums_keep_what_was_counted() {
        let mut sum = HardwareCounters::default();
        sum.merge(&HardwareCounters::new(vec![counted("a", 0, 5, 0), counted("b", 7, 10, 10)]));
        sum.merge(&HardwareCounters::new(vec![counted("b", 1, 10, 5), counted("a", 3, 4, 4)]));
        sum.merge(&HardwareCounters::new(vec![counted("b", 1, 10, 0)]));
        assert_eq!(sum.events, [counted("a", 3, 4, 4), counted("b", 8, 20, 15)]);
        let missing = CounterState::not_available("no PMU");
        sum.merge(&HardwareCounters::new(vec![Counter::new("a", CounterUnit::Events, missing.clone())]));
        assert_eq!(sum.events[0], counted("a", 3, 4, 4));
        let mut none = HardwareCounters::new(vec![Counter::new("a", CounterUnit::Events, missing.clone())]);
        none.merge(&HardwareCounters::new(vec![Counter::new("a", CounterUnit::Events, missing)]));
        assert!(matches!(&none.events[0].state, CounterState::NotAvailable { reason } if reason == "no PMU"));
    }
}
