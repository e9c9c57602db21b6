//! Events: what made the capture take a stack, and what the values of a count mean.

use serde::{Deserialize, Serialize};

/// Index of an [`Event`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u32);

impl EventId {
    /// Waits for locks.
    pub const LOCKS: Self = Self(2);
    /// The same waits by their length.
    pub const LOCK_LENGTHS: Self = Self(3);

    /// So many events can be sampled beside the first one.
    pub const MAX_FURTHER: usize = 5;
    /// The first event that is sampled beside [`Self::sampled`] number 0.
    const FIRST_FURTHER: u32 = 4;

    /// The event of samples, by its number among the sampled ones. Number 0 is the clock, or the first event that was sampled instead.
    #[must_use]
    pub fn sampled(number: usize) -> Self {
        match u32::try_from(number) {
            Ok(0) => Self(0),
            Ok(further) => Self(further.saturating_add(Self::FIRST_FURTHER - 1)),
            Err(_) => Self(u32::MAX),
        }
    }

    /// Its number among the sampled ones, if it is one of those.
    #[must_use]
    pub fn sampled_number(self) -> Option<usize> {
        match self.0 {
            0 => Some(0),
            id => id.checked_sub(Self::FIRST_FURTHER - 1).filter(|further| *further > 0).map(|n| n as usize),
        }
    }

    /// Its number among the events that were sampled beside the first one, from 0 on.
    #[must_use]
    pub fn further_number(self) -> Option<usize> {
        self.sampled_number()?.checked_sub(1)
    }

    /// Whether it is about locks.
    #[must_use]
    pub fn is_of_locks(self) -> bool {
        self == Self::LOCKS || self == Self::LOCK_LENGTHS
    }
}

/// What a value is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Things that are counted.
    Count,
    /// Time.
    Nanoseconds,
    /// Memory or traffic.
    Bytes,
}

/// How values of several occurrences become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The sum of their squares, for a standard deviation.
    SumOfSquares,
    /// The largest.
    Max,
}

impl Unit {
    /// The name in profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Nanoseconds => "nanoseconds",
            Self::Bytes => "bytes",
        }
    }
}

impl Fold {
    /// One value for two.
    #[must_use]
    pub fn join(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Sum | Self::SumOfSquares => one.saturating_add(other),
            Self::Max => one.max(other),
        }
    }
}

/// One value of the schema of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ValueSpec {
    /// What it is, as `intervals` or `waited`.
    pub name: String,
    /// What it is measured in.
    pub unit: Unit,
    /// How several become one.
    pub fold: Fold,
}

/// An event with the schema of its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Name in the ledger, as `software/cpu-clock`.
    pub name: String,
    /// What one occurrence stands for, in `period_unit`; none if every occurrence counts by itself.
    pub period: Option<u64>,
    /// Unit of the period.
    pub period_unit: Unit,
    /// The values of a count, in order.
    pub values: Vec<ValueSpec>,
}

impl Event {
    /// The clock of a CPU: one value, the number of samples, each standing for a period.
    #[must_use]
    pub fn cpu_clock(name: &str, period_ns: u64) -> Self {
        Self {
            name: name.to_owned(),
            period: Some(period_ns),
            period_unit: Unit::Nanoseconds,
            values: vec![ValueSpec::sum("samples", Unit::Count)],
        }
    }

    /// An event that is sampled instead of the clock: one value, the number of samples, each standing for a period. `kind` is what is
    /// counted, as `page-faults`.
    #[must_use]
    pub fn sampled(name: &str, kind: &str, period: u64, period_unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            period: Some(period),
            period_unit,
            values: vec![ValueSpec::sum(kind, Unit::Count)],
        }
    }

    /// What is counted, as `page-faults`: the name of the first value.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.values.first().map_or("", |value| &value.name)
    }

    /// What is summed up of a sampled event besides the number of its samples, if it has such a value.
    #[must_use]
    pub fn summed(&self) -> Option<&ValueSpec> {
        self.values.get(1)
    }

    /// Allocations: the number of objects, and their bytes. Those that were freed are counted in the same way, in a state of their own.
    #[must_use]
    pub fn heap() -> Self {
        Self {
            name: "heap".to_owned(),
            period: None,
            period_unit: Unit::Bytes,
            values: vec![ValueSpec::sum("objects", Unit::Count), ValueSpec::sum("space", Unit::Bytes)],
        }
    }

    /// The scheduler: number of intervals, their time, and of that the time in which the thread could have run.
    #[must_use]
    pub fn scheduler(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            period: None,
            period_unit: Unit::Nanoseconds,
            values: vec![
                ValueSpec::sum("intervals", Unit::Count),
                ValueSpec::sum("time", Unit::Nanoseconds),
                ValueSpec::sum("runnable", Unit::Nanoseconds),
            ],
        }
    }

    /// Waits for locks: their number, their time, and the longest.
    #[must_use]
    pub fn locks() -> Self {
        let longest = ValueSpec { fold: Fold::Max, ..ValueSpec::sum("longest", Unit::Nanoseconds) };
        Self {
            name: "futex".to_owned(),
            period: None,
            period_unit: Unit::Nanoseconds,
            values: vec![
                ValueSpec::sum("waits", Unit::Count),
                ValueSpec::sum("time", Unit::Nanoseconds),
                longest,
            ],
        }
    }

    /// The same waits by their length: their number.
    #[must_use]
    pub fn lock_lengths() -> Self {
        Self {
            name: "futex lengths".to_owned(),
            period: None,
            period_unit: Unit::Count,
            values: vec![ValueSpec::sum("waits", Unit::Count)],
        }
    }
}

impl ValueSpec {
    /// A value that is summed up.
    #[must_use]
    pub fn sum(name: &str, unit: Unit) -> Self {
        Self { name: name.to_owned(), unit, fold: Fold::Sum }
    }
}
