//! The schemas of events: what the values of a key are. `enum event_schema` of `bpf/abi/sums.h` is their only source.

use crate::abi::skeleton::types::{event_schema, fold};
use crate::sections::VALUE_SLOTS;
use crate::sum_key::Event;

/// How the values of several occurrences become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The sum of their squares.
    SumOfSquares,
    /// The largest.
    Max,
}

/// How each slot of an event folds; none in slots that the event does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema([Option<Fold>; VALUE_SLOTS]);

/// `SCHEMA_SHIFT` of `bpf/abi/sums.h`.
const SHIFT: usize = 4;

const _: () = {
    let (one, two, three) = (fold::FOLD_SUM.0, fold::FOLD_SQUARES.0, fold::FOLD_MAX.0);
    assert!(event_schema::SCHEMA_TEST.0 == one | two << SHIFT | three << (2 * SHIFT));
};

impl Schema {
    /// The schema of an event.
    #[must_use]
    pub fn of(event: Event) -> Self {
        Self::decode(match event {
            Event::Clock => event_schema::SCHEMA_CLOCK,
            Event::Scheduler => event_schema::SCHEMA_SCHEDULER,
            Event::Lock => event_schema::SCHEMA_LOCK,
            Event::LockLength => event_schema::SCHEMA_LOCK_LENGTH,
            Event::Second | Event::Third | Event::Fourth | Event::Fifth | Event::Sixth => {
                event_schema::SCHEMA_CLOCK
            }
        })
    }

    /// The schema of the sampling event if it has a value: samples, and the sum of their values.
    #[must_use]
    pub fn of_values() -> Self {
        Self::decode(event_schema::SCHEMA_VALUE)
    }

    /// How the slots fold. The slots behind the last one are not used.
    pub fn folds(self) -> impl Iterator<Item = Fold> {
        self.0.into_iter().map_while(std::convert::identity)
    }

    /// Joins the values of a key with more of them, as the programs do. The values to be squared are squared already.
    #[must_use]
    pub fn join(&self, values: [u64; VALUE_SLOTS], more: [u64; VALUE_SLOTS]) -> [u64; VALUE_SLOTS] {
        std::array::from_fn(|slot| match self.0[slot] {
            None => 0,
            Some(Fold::Sum | Fold::SumOfSquares) => values[slot].wrapping_add(more[slot]),
            Some(Fold::Max) => values[slot].max(more[slot]),
        })
    }

    fn decode(schema: event_schema) -> Self {
        Self(std::array::from_fn(|slot| match fold(schema.0 >> (slot * SHIFT) & 0xf) {
            fold::FOLD_SUM => Some(Fold::Sum),
            fold::FOLD_SQUARES => Some(Fold::SumOfSquares),
            fold::FOLD_MAX => Some(Fold::Max),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_those_of_the_programs() {
        let folds = |event| Schema::of(event).folds().collect::<Vec<_>>();
        assert_eq!(folds(Event::Clock), [Fold::Sum]);
        assert!(Schema::of_values().folds().eq([Fold::Sum; 2]));
        assert_eq!(folds(Event::Scheduler), [Fold::Sum; 3]);
        assert_eq!(folds(Event::Lock), [Fold::Sum, Fold::Sum, Fold::Max]);
        assert_eq!(folds(Event::LockLength), [Fold::Sum]);
    }

    /// The programs' own code adds occurrences to the values of two sides; user space joins the sides.
    #[test]
    fn squares_and_maxima_of_the_programs_are_read_as_they_were_meant() {
        let schema = event_schema::SCHEMA_TEST;
        let occurrences: [[u64; 3]; 6] = [[1, 3, 3], [1, 10, 10], [1, 4, 4], [1, 0, 0], [1, 7, 7], [1, 9, 9]];
        let (one, other) = occurrences.split_at(3);
        let side = |occurrences: &[[u64; 3]]| {
            let mut values = replay::first_values(schema.0, occurrences[0]);
            occurrences[1..].iter().for_each(|more| replay::add_values(schema.0, &mut values, *more));
            values
        };
        let (one, other) = (side(one), side(other));
        assert_eq!((one, other), ([3, 125, 10], [3, 130, 9]));
        assert_eq!(Schema::decode(schema).join(one, other), [6, 255, 10]);
        // The two schemas of today, by the same code.
        for (event, schema) in
            [(Event::Clock, event_schema::SCHEMA_CLOCK), (Event::Scheduler, event_schema::SCHEMA_SCHEDULER)]
        {
            let mut values = replay::first_values(schema.0, [2, 30, 5]);
            replay::add_values(schema.0, &mut values, [1, 4, 0]);
            let expected = if event == Event::Clock { [3, 0, 0] } else { [3, 34, 5] };
            assert_eq!(values, expected);
            assert_eq!(Schema::of(event).join(values, [0; 3]), expected);
        }
    }
}
