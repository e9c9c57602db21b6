//! The order of records: perf writes those of each CPU in order, one CPU after the other, and marks rounds. A record is no older than
//! the newest one of the round before the last.

use crate::error::Error;

/// Bytes of records that wait at most. Of a file with longer rounds the older half is handed on before its time.
const MAX_WAITING: usize = 64 << 20;

/// A record that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: u64,
    /// Where it is in the file.
    at: u64,
    kind: u32,
    misc: u16,
    start: usize,
    length: usize,
}

/// A record in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered<'a> {
    pub(crate) at: u64,
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) body: &'a [u8],
}

/// The records of the last rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    bytes: Vec<u8>,
    records: Vec<Waiting>,
    newest: u64,
    /// The newest record of the rounds before this one.
    newest_before: u64,
    handed_on: u64,
    /// Records that came after newer ones were handed on.
    pub(crate) late: u64,
}

impl Rounds {
    /// Adds a record. One without a time belongs to the moment in which it was written.
    pub(crate) fn add(
        &mut self,
        (at, kind, misc): (u64, u32, u16),
        time: Option<u64>,
        body: &[u8],
        hand_on: &mut dyn FnMut(Ordered<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let time = time.unwrap_or(self.newest);
        self.late += u64::from(time < self.handed_on);
        self.newest = self.newest.max(time);
        self.records.push(Waiting { time, at, kind, misc, start: self.bytes.len(), length: body.len() });
        self.bytes.extend_from_slice(body);
        if self.bytes.len() + self.records.len() * size_of::<Waiting>() > MAX_WAITING {
            let mut times: Vec<u64> = self.records.iter().map(|record| record.time).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.hand_on_until(median, hand_on)?;
        }
        Ok(())
    }

    /// A round ends.
    pub(crate) fn end_round(
        &mut self,
        hand_on: &mut dyn FnMut(Ordered<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.hand_on_until(self.newest_before, hand_on)?;
        self.newest_before = self.newest;
        Ok(())
    }

    /// Hands on all records up to a time.
    pub(crate) fn hand_on_until(
        &mut self,
        time: u64,
        hand_on: &mut dyn FnMut(Ordered<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Of one moment: in the order of the file, which is that of the bytes here.
        self.records.sort_unstable_by_key(|record| (record.time, record.start));
        let count = self.records.partition_point(|record| record.time <= time);
        for record in self.records.drain(..count) {
            let Waiting { at, kind, misc, start, length, time } = record;
            self.handed_on = self.handed_on.max(time);
            let body = self.bytes.get(start..start + length).unwrap_or_default();
            hand_on(Ordered { at, kind, misc, body })?;
        }
        // The rest moves to the front, in its order there: the memory is used again, which costs less than new pages for each round.
        self.records.sort_unstable_by_key(|record| record.start);
        let mut end = 0;
        for record in &mut self.records {
            self.bytes.copy_within(record.start..record.start + record.length, end);
            record.start = end;
            end += record.length;
        }
        self.bytes.truncate(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: &[Option<u64>]) -> (Vec<u64>, u64) {
        let (mut rounds, mut seen) = (Rounds::default(), Vec::new());
        let mut hand_on = |record: Ordered<'_>| {
            seen.push(u64::from(record.body[0]));
            Ok(())
        };
        for (at, step) in (0..).zip(steps) {
            match step {
                Some(time) => {
                    rounds.add((at, 9, 0), Some(*time), &[*time as u8], &mut hand_on).unwrap();
                }
                None => rounds.end_round(&mut hand_on).unwrap(),
            }
        }
        rounds.hand_on_until(u64::MAX, &mut hand_on).unwrap();
        let late = rounds.late;
        (seen, late)
    }

    #[test]
    fn records_of_several_cpus_come_in_the_order_of_their_times() {
        let steps = [1, 3, 0, 2, 4, 9, 3, 5, 6, 9, 5, 7, 9].map(|time| (time != 9).then_some(time));
        assert_eq!(run(&steps), (vec![0, 1, 2, 3, 3, 4, 5, 5, 6, 7], 0));
    }

    #[test]
    fn a_record_that_comes_too_late_is_counted() {
        assert_eq!(run(&[Some(5), None, Some(6), None, Some(1)]), (vec![5, 1, 6], 1));
    }

    #[test]
    fn a_round_without_an_end_does_not_fill_the_memory() {
        let (mut rounds, mut count, mut most) = (Rounds::default(), 0, 0);
        let body = vec![0; 60_000];
        for time in 0..2_500 {
            let mut hand_on = |_: Ordered<'_>| {
                count += 1;
                Ok(())
            };
            rounds.add((time, 9, 0), Some(time), &body, &mut hand_on).unwrap();
            most = most.max(rounds.bytes.capacity());
        }
        assert!(count > 1_000 && most < 2 * MAX_WAITING, "{count} {most}");
    }
}
