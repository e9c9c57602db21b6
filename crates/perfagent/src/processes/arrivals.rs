//! Puts arrivals from two sources of the kernel in order: messages of the BPF ring, which hold process life and stacks, and records of
//! mappings from the side band.
//!
//! Messages keep the order of the ring. A message with a time comes after the mappings made before that time, and waits
//! until all of those are here.

use std::collections::VecDeque;

use events::{Mmap, Record, Task, TimedRecord};
use kernel::Message;

/// One thing that arrived.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrival {
    /// A process made a mapping at this time.
    Mapping(u64, Mmap),
    /// A thread began or ended at this time.
    Thread(u64, Task),
    /// A message of the programs.
    Message(Message),
}

/// Arrivals that are not handled yet.
#[derive(Default)]
pub(crate) struct Arrivals {
    records: VecDeque<(u64, Record)>,
    messages: VecDeque<Message>,
    /// All mappings made up to this time are here.
    complete_ns: u64,
}

impl Arrivals {
    /// Takes in what has arrived: records in the order of time, complete up to `complete_ns`, and messages.
    pub(crate) fn add(&mut self, records: Vec<TimedRecord>, complete_ns: u64, messages: Vec<Message>) {
        // Losses are counted.
        let told = records.into_iter().filter(|record| !matches!(record.record, Record::Lost(_)));
        self.records.extend(told.map(|record| (record.time_ns, record.record)));
        self.messages.extend(messages);
        self.complete_ns = complete_ns;
    }

    /// The time up to which everything that was made known has been taken in.
    pub(crate) fn complete_ns(&self) -> u64 {
        self.complete_ns
    }

    /// Whether messages wait for mappings that are still to come.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The next thing, if its turn has come.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        let time_ns = self.messages.front().map(|message| message.time_ns().unwrap_or(0));
        let before = |told_ns: u64| time_ns.is_none_or(|time| told_ns <= time || time > self.complete_ns);
        while let Some((time, record)) = self.records.pop_front_if(|(told_ns, _)| before(*told_ns)) {
            match record {
                Record::Mmap(mmap) => return Some(Arrival::Mapping(time, mmap)),
                Record::Task(task) => return Some(Arrival::Thread(time, task)),
                _ => {}
            }
        }
        if time_ns? > self.complete_ns {
            return None;
        }
        self.messages.pop_front().map(Arrival::Message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Life, LifeEvent};

    fn mapping(time_ns: u64) -> TimedRecord {
        let mmap = Mmap {
            pid: 1,
            tid: 1,
            address: time_ns,
            len: 1,
            file_offset: 0,
            dev_major: 0,
            dev_minor: 0,
            inode: 0,
            build_id: None,
            executable: true,
            protection: 5,
            flags: 2,
            path: Vec::new(),
        };
        TimedRecord { time_ns, cpu: 0, record: Record::Mmap(mmap) }
    }

    fn fork(time_ns: u64) -> Message {
        Message::Life(Life { pid: 2, time_ns, event: LifeEvent::Fork { parent: 1 } })
    }

    /// The times of the arrivals in their order. Times of messages are negative, or 0 if a message has none.
    fn times(arrivals: &mut Arrivals) -> Vec<i64> {
        let next = std::iter::from_fn(|| arrivals.next());
        next.map(|arrival| match arrival {
            Arrival::Mapping(time, _) | Arrival::Thread(time, _) => time as i64,
            Arrival::Message(message) => -(message.time_ns().unwrap_or(0) as i64),
        })
        .collect()
    }

    #[test]
    fn mappings_come_before_the_fork_that_passes_them_on() {
        let mut arrivals = Arrivals::default();
        arrivals.add(vec![mapping(1), mapping(4), mapping(6)], 10, vec![fork(5), fork(5), fork(9)]);
        assert_eq!(times(&mut arrivals), [1, 4, -5, -5, 6, -9]);
    }

    #[test]
    fn a_message_waits_until_all_earlier_mappings_are_here() {
        let mut arrivals = Arrivals::default();
        let asked = Message::Process { pid: 1, waker_only: false, is_new: true };
        arrivals.add(vec![mapping(3)], 10, vec![fork(11), asked]);
        assert_eq!(times(&mut arrivals), [3], "and what is behind it in the ring waits too");
        arrivals.add(vec![mapping(10), mapping(12)], 20, vec![fork(21)]);
        assert_eq!(times(&mut arrivals), [10, -11, 0, 12]);
        arrivals.add(vec![TimedRecord { record: Record::Lost(1), ..mapping(22) }], u64::MAX, Vec::new());
        assert_eq!(times(&mut arrivals), [-21]);
    }

    #[test]
    fn a_name_that_is_to_be_read_later_holds_nothing_up() {
        let mut arrivals = Arrivals::default();
        let look = Message::Life(Life { pid: 1, time_ns: 500, event: LifeEvent::LookAgain });
        arrivals.add(Vec::new(), 10, vec![look, fork(7)]);
        assert_eq!(times(&mut arrivals), [0, -7]);
    }
}
