//! Values of counters, as `read(2)` and samples tell them.

use crate::bytes::{Bytes, Malformed};
use crate::numbers::read_format;

/// One counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Its count.
    pub value: u64,
    /// The kernel's number of the event, if it was asked for.
    pub id: Option<u64>,
    /// Samples of it that found no room in the ring, if that was asked for.
    pub lost: Option<u64>,
}

/// Counters that were read together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterGroup {
    /// ns for which they were enabled.
    pub time_enabled: Option<u64>,
    /// ns for which they were counted.
    pub time_running: Option<u64>,
    /// The leader first.
    pub values: Vec<CounterValue>,
}

impl CounterGroup {
    /// Reads what `read(2)` gives of an event with this `read_format`.
    ///
    /// # Errors
    /// [`Malformed`] if there are too few bytes.
    pub fn parse(bytes: &[u8], format: u64) -> Result<Self, Malformed> {
        Self::take(&mut Bytes(bytes), format)
    }

    pub(crate) fn take(bytes: &mut Bytes<'_>, format: u64) -> Result<Self, Malformed> {
        let mut group = Self::default();
        let has = |bit: u64| format & bit != 0;
        let optional = |bytes: &mut Bytes<'_>, bit: u64| has(bit).then(|| bytes.u64()).transpose();
        let grouped = has(read_format::GROUP);
        let count = if grouped { bytes.u64()? } else { 1 };
        let single = (!grouped).then(|| bytes.u64()).transpose()?;
        group.time_enabled = optional(bytes, read_format::TOTAL_TIME_ENABLED)?;
        group.time_running = optional(bytes, read_format::TOTAL_TIME_RUNNING)?;
        for _ in 0..count {
            let value = match single {
                Some(value) => value,
                None => bytes.u64()?,
            };
            let id = optional(bytes, read_format::ID)?;
            let lost = optional(bytes, read_format::LOST)?;
            group.values.push(CounterValue { value, id, lost });
        }
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_single_counter_and_a_group_have_their_own_orders() {
        let single = CounterGroup::parse(&bytes(&[5, 100, 50, 9, 2]), 1 | 2 | 4 | 16).unwrap();
        let value = CounterValue { value: 5, id: Some(9), lost: Some(2) };
        assert_eq!(
            single,
            CounterGroup { time_enabled: Some(100), time_running: Some(50), values: vec![value] }
        );
        let group = CounterGroup::parse(&bytes(&[2, 100, 5, 9, 6, 10]), 1 | 4 | 8).unwrap();
        assert_eq!((group.time_enabled, group.time_running), (Some(100), None));
        assert_eq!(
            group.values.iter().map(|one| (one.value, one.id)).collect::<Vec<_>>(),
            [(5, Some(9)), (6, Some(10))]
        );
        assert_eq!(
            CounterGroup::parse(&bytes(&[u64::MAX, 1]), 8),
            Err(Malformed),
            "as many as there are bytes"
        );
    }
}
