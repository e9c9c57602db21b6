//! Records of all CPUs in order of time.
//!
//! Records are held until a round has passed: each round notes the clock, takes what all rings have, and hands out what is not newer than the
//! clock of the round before. A record reaches its ring a moment after its time, which a round outlasts. What is older than something
//! that was handed out is late; what does not fit into the bound is handed out early. Both are flagged.

/// A record that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    time_ns: u64,
    cpu: u32,
    start: usize,
    len: usize,
}

/// A record in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered<'a> {
    pub time_ns: u64,
    pub cpu: u32,
    pub bytes: &'a [u8],
    /// Something later was handed out already.
    pub late: bool,
    /// The bound was reached.
    pub early: bool,
}

/// The records that are held.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    held: Vec<Held>,
    bytes: Vec<u8>,
    /// Of the round before.
    limit_ns: u64,
    handed_out_ns: u64,
}

impl Merge {
    /// Takes a record of a ring. Records of one CPU come in the order of their ring.
    pub fn push(&mut self, time_ns: u64, cpu: u32, record: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.held.push(Held { time_ns, cpu, start, len: record.len() });
    }

    /// The time up to which everything was handed out.
    pub fn handed_out_ns(&self) -> u64 {
        self.handed_out_ns
    }

    /// Ends a round that began at `now_ns` before the first ring was read, and hands out what is due. `bound`: the bytes that may be held.
    pub fn end_round(&mut self, now_ns: u64, bound: usize, each: impl FnMut(Ordered<'_>)) {
        let limit = std::mem::replace(&mut self.limit_ns, now_ns);
        self.hand_out(limit, bound, each);
    }

    /// Hands out everything.
    pub fn finish(&mut self, each: impl FnMut(Ordered<'_>)) {
        self.hand_out(u64::MAX, usize::MAX, each);
    }

    fn hand_out(&mut self, limit_ns: u64, bound: usize, mut each: impl FnMut(Ordered<'_>)) {
        // Stable, and fast for what is sorted in parts: the rings.
        self.held.sort_by_key(|held| (held.time_ns, held.cpu));
        let due = self.held.partition_point(|held| held.time_ns <= limit_ns);
        let early = if self.bytes.len() > bound { self.held.len() } else { due };
        for (at, held) in self.held.iter().enumerate().take(early) {
            let Some(bytes) = self.bytes.get(held.start..held.start + held.len) else { continue };
            let late = held.time_ns < self.handed_out_ns;
            self.handed_out_ns = self.handed_out_ns.max(held.time_ns);
            each(Ordered { time_ns: held.time_ns, cpu: held.cpu, bytes, late, early: at >= due });
        }
        self.held.drain(..early);
        let mut kept = Vec::with_capacity(self.held.iter().map(|held| held.len).sum());
        for held in &mut self.held {
            let start = kept.len();
            kept.extend_from_slice(self.bytes.get(held.start..held.start + held.len).unwrap_or_default());
            held.start = start;
        }
        self.bytes = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(merge: &mut Merge, now_ns: u64, bound: usize) -> Vec<(u64, u32, bool, bool)> {
        let mut out = Vec::new();
        merge.end_round(now_ns, bound, |item| out.push((item.time_ns, item.cpu, item.late, item.early)));
        out
    }

    #[test]
    fn a_record_waits_for_one_round() {
        let mut merge = Merge::default();
        merge.push(15, 1, b"b");
        merge.push(5, 0, b"a");
        assert_eq!(round(&mut merge, 10, 100), []);
        merge.push(8, 0, b"c");
        merge.push(25, 0, b"d");
        assert_eq!(round(&mut merge, 20, 100), [(5, 0, false, false), (8, 0, false, false)]);
        assert_eq!(round(&mut merge, 30, 100), [(15, 1, false, false)]);
        merge.push(7, 1, b"late");
        assert_eq!(round(&mut merge, 40, 100), [(7, 1, true, false), (25, 0, false, false)]);
        assert_eq!((merge.bytes.len(), merge.handed_out_ns()), (0, 25));
    }

    #[test]
    fn what_exceeds_the_bound_comes_early() {
        let mut merge = Merge::default();
        for time in [30, 10, 20] {
            merge.push(time, 0, &[0; 8]);
        }
        assert_eq!(round(&mut merge, 5, 24), []);
        assert_eq!(
            round(&mut merge, 15, 23),
            [(10, 0, false, true), (20, 0, false, true), (30, 0, false, true)]
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_only_late_records_are_out_of_order(
            rounds in prop::collection::vec(prop::collection::vec((0u64..100, 0u32..3), 0..20), 1..10),
            bound in 0usize..200,
        ) {
            let mut merge = Merge::default();
            let (mut out, mut pushed, mut last) = (Vec::new(), 0usize, 0);
            let mut each = |item: Ordered<'_>| out.push((item.time_ns, item.late, item.bytes.to_vec()));
            for (number, records) in (0u64..).zip(&rounds) {
                for (time, cpu) in records {
                    merge.push(number * 50 + time, *cpu, &pushed.to_ne_bytes());
                    pushed += 1;
                }
                merge.end_round(number * 50 + 50, bound, &mut each);
            }
            merge.finish(&mut each);
            let mut seen: Vec<_> = out.iter().map(|(_, _, bytes)| bytes.clone()).collect();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), pushed);
            for (time, late, _) in out {
                prop_assert!(time >= last || late);
                last = last.max(time);
            }
        }
    }
}
