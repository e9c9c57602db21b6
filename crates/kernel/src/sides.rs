//! The data that the programs add up: sums by stack, counters, pending counts. It exists twice, on two sides: the programs
//! add to one side while user space empties the other. Sums and counters change sides at the same moment: each run of a
//! program reads the side once, and a side is emptied only after all runs that may have read it have ended.
//!
//! At a seam (see `bpf/seam.h`) the open intervals of threads are also split. Their part before the seam comes from the
//! seam records.

use std::time::Duration;

use libbpf_rs::{MapCore, MapHandle};
use sys::clock::kernel_ns;

use crate::abi::control;
use crate::control_words::{ControlWords, Switch};
use crate::counters::{COUNTERS, Counter};
use crate::sampler_states::{Further, SamplerStates, Ticks};
use crate::sections::VALUE_SLOTS;
use crate::sum_key::Event;
use crate::table_pool::TablePool;
use crate::{Counters, Error, batch};

/// A seam is written down this long before its time: longer than writing takes.
const SEAM_LEAD_NS: u64 = 200_000;

/// The sums of one stack, by the schema of its event: [`Schema::of`](crate::Schema::of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// By slot. The first one is the number of occurrences.
    pub values: [u64; VALUE_SLOTS],
}

impl Sums {
    /// Samples or intervals.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.values[0]
    }
}

/// The data of an interval that ended at a seam, apart from its sums.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Cut {
    /// When the interval ended, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The counters of the sampler.
    pub sampler: Counters,
    /// Those of further sampled events, in their order.
    pub further: Vec<Counters>,
    /// The counters of the programs that follow threads.
    pub off_cpu: Counters,
    /// The intervals of threads that were open at the seam.
    pub open: Vec<OpenStretch>,
    /// How often the side of the sums has changed, this seam included. A single sample with this number or a later one belongs to
    /// the next interval.
    pub side_changes: u32,
}

/// An interval of a thread on or off CPU that was open at a seam. It is counted where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenStretch {
    /// The key under which the rest of its time will be added, unless a waker is recorded at its end.
    pub key: u64,
    /// The time before the seam; 0 while it is open whether the whole is long enough to be recorded.
    pub value: u64,
    /// The part of this time in which the thread was runnable.
    pub waited: u64,
    /// Key of the wait for a lock that the interval is, as long as nobody has ended it; 0: it is none.
    pub lock: u64,
    /// Time of that wait before the seam.
    pub lock_ns: u64,
}

/// Counters of the sampler and of the programs that follow threads.
#[derive(Clone)]
struct Counted {
    /// By number of the sampled event.
    sampled: [[u64; COUNTERS]; Event::SAMPLED.len()],
    threads: [u64; COUNTERS],
}

impl Counted {
    const NOTHING: Self = Self { sampled: [[0; COUNTERS]; Event::SAMPLED.len()], threads: [0; COUNTERS] };

    fn add(&mut self, more: &Self) {
        let all = self.sampled.as_flattened_mut().iter_mut().chain(&mut self.threads);
        for (sum, more) in all.zip(more.sampled.as_flattened().iter().chain(&more.threads)) {
            *sum += more;
        }
    }

    /// Those of the further events of so many.
    fn further(&self, events: usize) -> Vec<Counters> {
        self.sampled.iter().skip(1).take(events).map(Counters::from_sums).collect()
    }
}

impl Cut {
    /// Single samples that did not fit into the ring.
    #[must_use]
    pub fn singles_lost(&self) -> u64 {
        singles_lost(&self.sampler, &self.further)
    }
}

/// Single samples of all events that did not fit into the ring.
pub(crate) fn singles_lost(sampler: &Counters, further: &[Counters]) -> u64 {
    sampler.singles_lost + further.iter().map(|counters| counters.singles_lost).sum::<u64>()
}

/// The maps that have two sides, and the counters taken out of them.
pub(crate) struct Sides {
    tables: [MapHandle; 2],
    seam_records: MapHandle,
    states: SamplerStates,
    words: ControlWords,
    switch: Switch,
    /// The last seam, CLOCK_MONOTONIC, and the one before it; 0 if there was none.
    seam_ns: u64,
    previous_seam_ns: u64,
    /// The records of the last seam are not complete.
    gathers: bool,
    /// Intervals of threads that were open at seams since the last complete cut.
    open: Vec<OpenStretch>,
    /// Counters from all emptied sides: since the start, and since the last seam.
    total: Counted,
    interval: Counted,
}

impl Sides {
    /// Finds the maps by name. `further`: the slots of further sampled events.
    pub(crate) fn find(
        map: impl Fn(&'static str) -> Result<MapHandle, Error>,
        further: Further,
        words: ControlWords,
    ) -> Result<Self, Error> {
        Ok(Self {
            tables: [map("totals_a")?, map("totals_b")?],
            seam_records: map("seam_records")?,
            states: SamplerStates::new(&map("sampler_states")?, further)?,
            switch: Switch::new(words.clone(), control::SIDE_CHANGES),
            words,
            seam_ns: 0,
            previous_seam_ns: 0,
            gathers: false,
            open: Vec::new(),
            total: Counted::NOTHING,
            interval: Counted::NOTHING,
        })
    }

    /// Distinct stacks that one side holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.tables[0].max_entries()
    }

    /// The last seam; 0 if there was none.
    pub(crate) fn seam_ns(&self) -> u64 {
        self.seam_ns
    }

    /// Counters of the sampler so far.
    pub(crate) fn sampler_counters(&self) -> Counters {
        Counters::from_sums(&self.so_far().sampled[0])
    }

    /// Those of further sampled events.
    pub(crate) fn further_counters(&self) -> Vec<Counters> {
        self.so_far().further(self.states.further_events())
    }

    /// Counters of the programs that follow threads so far.
    pub(crate) fn thread_counters(&self) -> Counters {
        Counters::from_sums(&self.so_far().threads)
    }

    fn so_far(&self) -> Counted {
        let mut all = self.total.clone();
        (0..2).for_each(|side| all.add(&self.counted(side)));
        all
    }

    /// Empties the side in use, while the programs go on with the other. Calls `each` with each hash and its sums.
    pub(crate) fn drain(&mut self, pool: &mut TablePool, each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        let full = self.change(pool)?;
        self.empty(full, each)
    }

    /// Ends the interval: changes the side, calls `gather`, and takes all data of the interval. `gather` makes the programs
    /// record the intervals of threads that are open; it is none if threads are not followed. If it fails, the records that
    /// are missing are made when an interval of a thread ends, or at the next cut.
    pub(crate) fn cut(
        &mut self,
        pool: &mut TablePool,
        mut gather: Option<impl FnMut() -> Result<(), Error>>,
        each: impl FnMut(u64, Sums),
    ) -> Result<Cut, Error> {
        if self.gathers
            && let Some(gather) = &mut gather
        {
            self.gather(pool, gather)?;
        }
        self.write_seam(gather.is_some());
        let full = self.change(pool)?;
        let side_changes = self.switch.changes() as u32;
        let gathered = gather.map_or(Ok(()), |mut gather| self.gather(pool, &mut gather));
        self.empty(full, each)?;
        gathered?;
        let interval = std::mem::replace(&mut self.interval, Counted::NOTHING);
        Ok(Cut {
            at_ns: self.seam_ns,
            sampler: Counters::from_sums(&interval.sampled[0]),
            further: interval.further(self.states.further_events()),
            off_cpu: Counters::from_sums(&interval.threads),
            open: std::mem::take(&mut self.open),
            side_changes,
        })
    }

    /// Writes the next seam down for the programs, and waits until its time. From then on the programs that follow threads
    /// add to the next side; the sampler does when the side is changed.
    fn write_seam(&mut self, gathers: bool) {
        let next = self.switch.other() as u32;
        self.previous_seam_ns = self.seam_ns;
        self.words.set(control::PREVIOUS_SEAM_NS + next, self.previous_seam_ns);
        self.gathers = gathers;
        // Nothing stands between the clock and the last write: programs that run between the seam and the write do not
        // know of the seam.
        self.seam_ns = kernel_ns() + SEAM_LEAD_NS;
        if gathers {
            self.words.set(control::GATHERED_SEAM_NS, self.seam_ns);
        }
        self.words.set(control::SEAM_NS + next, self.seam_ns);
        while let rest @ 1.. = self.seam_ns.saturating_sub(kernel_ns()) {
            std::thread::sleep(Duration::from_nanos(rest));
        }
    }

    /// Makes the programs write the records of the last seam, and takes them.
    fn gather(
        &mut self,
        pool: &mut TablePool,
        gather: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        gather()?;
        self.words.set(control::GATHERED_SEAM_NS, 0);
        // A program that ended an interval meanwhile may still be writing its record.
        pool.wait_for_programs()?;
        let mut lifetime_ns = 0;
        let emptied =
            batch::empty(&self.seam_records, |[_], [seam_ns, key, value, waited, lived, lock, lock_ns]| {
                if seam_ns == self.seam_ns {
                    lifetime_ns += lived;
                    self.open.extend((key != 0).then_some(OpenStretch { key, value, waited, lock, lock_ns }));
                }
            });
        emptied.map_err(not_emptied("seam_records"))?;
        self.gathers = false;
        let lifetime = Counter::LifetimeNs as usize;
        self.interval.threads[lifetime] += lifetime_ns;
        self.total.threads[lifetime] += lifetime_ns;
        Ok(())
    }

    /// Empties both sides. Call it at the end, when no program runs any more.
    pub(crate) fn drain_all(&mut self, mut each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        self.empty(0, &mut each)?;
        self.empty(1, &mut each)
    }

    /// Changes the side, waits until no program adds to the old one, and returns the number of the old one.
    fn change(&mut self, pool: &mut TablePool) -> Result<usize, Error> {
        let next = self.switch.other() as u32;
        self.words.set(control::SEAM_NS + next, self.seam_ns);
        self.words.set(control::PREVIOUS_SEAM_NS + next, self.previous_seam_ns);
        self.switch.change(pool)?;
        Ok(self.switch.other())
    }

    /// How often the program of the sampling event ran in a slot.
    pub(crate) fn ticks(&self, slot: u32) -> Ticks {
        self.states.ticks(slot)
    }

    /// The counters of a side.
    fn counted(&self, side: usize) -> Counted {
        let mut sampled = Counted::NOTHING.sampled;
        for (number, sums) in sampled.iter_mut().enumerate().take(1 + self.states.further_events()) {
            *sums = self.states.of_sampled(number, side);
        }
        Counted { sampled, threads: self.states.of_threads(side) }
    }

    fn empty(&mut self, side: usize, mut each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        let counted = self.counted(side);
        self.states.clear_counters(side);
        self.total.add(&counted);
        self.interval.add(&counted);
        // Only samples are counted there.
        self.states.take_pending(side, |hash, count| each(hash, Sums { values: [count, 0, 0] }));
        let sums = |[hash]: [u64; 1], values: [u64; VALUE_SLOTS]| each(hash, Sums { values });
        batch::empty(&self.tables[side], sums).map_err(not_emptied("totals"))
    }
}

fn not_emptied(map: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Map { action: "empty", map, source: source.into() }
}
