//! Values of an event by the slots of its schema, while a recording is built.

use crate::event::{Event, Fold};

/// The most values that an event has.
pub const VALUE_SLOTS: usize = 3;

/// Values by slot. The first one is always the number of occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values(pub [u64; VALUE_SLOTS]);

/// How the slots of an event fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folds([Fold; VALUE_SLOTS]);

impl Values {
    /// The number of occurrences.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0[0]
    }

    /// Joins the values of other occurrences.
    pub(crate) fn join(&mut self, more: Self, Folds(folds): Folds) {
        for ((value, more), fold) in self.0.iter_mut().zip(more.0).zip(folds) {
            *value = fold.join(*value, more);
        }
    }

    /// Joins the time so far of an occurrence that goes on: its sums. Squares and maxima are those of whole occurrences.
    pub(crate) fn join_open(&mut self, more: Self, Folds(folds): Folds) {
        for ((value, more), fold) in self.0.iter_mut().zip(more.0).zip(folds).skip(1) {
            if fold == Fold::Sum {
                *value = fold.join(*value, more);
            }
        }
    }
}

impl Folds {
    /// Those of an event; all sums without one.
    pub(crate) fn of(event: Option<&Event>) -> Self {
        let mut folds = [Fold::Sum; VALUE_SLOTS];
        for (fold, value) in folds.iter_mut().zip(event.into_iter().flat_map(|event| &event.values)) {
            *fold = value.fold;
        }
        Self(folds)
    }
}

/// What is summed up of an event whose values are a count, a time, and a part of this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSums {
    /// Samples or intervals.
    pub count: u64,
    /// Sum of their values.
    pub value: u64,
    /// Off-CPU: of the value, the time in which the thread could have run.
    pub waited: u64,
}

impl From<StackSums> for Values {
    fn from(StackSums { count, value, waited }: StackSums) -> Self {
        Self([count, value, waited])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Unit, ValueSpec};

    #[test]
    fn each_slot_folds_as_its_schema_says() {
        let value = |fold| ValueSpec { fold, ..ValueSpec::sum("value", Unit::Nanoseconds) };
        let values = vec![value(Fold::Sum), value(Fold::SumOfSquares), value(Fold::Max)];
        let folds = Folds::of(Some(&Event { values, ..Event::scheduler("waits") }));
        let mut values = Values([2, 25, 4]);
        values.join(Values([1, 4, 2]), folds);
        assert_eq!(values, Values([3, 29, 4]));
        values.join(Values([1, 81, 9]), folds);
        assert_eq!(values, Values([4, 110, 9]));
        // An interval that goes on has no square and no maximum yet, and it is not counted.
        values.join_open(Values([1, 100, 10]), folds);
        assert_eq!(values, Values([4, 110, 9]));
        values.join_open(Values([1, 100, 10]), Folds::of(None));
        assert_eq!(values, Values([4, 210, 19]));
    }
}
