//! Statistics of the scheduler: each CPU writes its own, and they are added up here.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use metrics::{ContextSwitches, HISTOGRAM_BUCKETS, Histogram, Scheduling};

use crate::abi::control;
use crate::abi::skeleton::types;
use crate::control_words::{ControlWords, Switch};
use crate::sum_key::State;
use crate::table_pool::TablePool;
use crate::{Error, batch};

const _: () = assert!(size_of::<types::histogram>() == (4 + HISTOGRAM_BUCKETS) * 8);
const _: () = assert!(offset_of!(types::histogram, buckets) == 32);
// Each key has the start time of the process, its number, and the two fields that `halves` separates.
const _: () = assert!(offset_of!(types::process_cpu, pid) == 8 && offset_of!(types::process_cpu, cpu) == 12);
const _: () =
    assert!(offset_of!(types::process_event, pid) == 8 && offset_of!(types::process_event, event) == 12);
const _: () =
    assert!(offset_of!(types::process_bucket, pid) == 8 && offset_of!(types::process_bucket, kind) == 12);
const _: () = assert!(offset_of!(types::process_bucket, bucket) == 14);

/// Words of each value.
const PROCESS_WORDS: usize = size_of::<types::process_schedule>() / 8;
const COUNT_WORDS: usize = size_of::<types::event_count>() / 8;

/// `DURATION_ON_CPU` of `bpf/abi/sched_stats.h`; the other kind are waits.
const ON_CPU: u16 = 0;

/// The maps of `bpf/sched_stats.h` and `bpf/counters.h`.
pub(crate) struct StatsMaps {
    all: MapHandle,
    events: MapHandle,
    /// Possible CPUs. Each event has so many places in `events`.
    cpus: u32,
    /// The last reading of each event on each CPU.
    readings: MapHandle,
    /// Statistics of processes. The programs add to one table while user space empties the other.
    tables: [StatsTables; 2],
    switch: Switch,
}

/// The maps of the statistics of processes.
struct StatsTables {
    schedules: MapHandle,
    buckets: MapHandle,
    counters: MapHandle,
}

/// A process. Its start time distinguishes it from later processes with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, CLOCK_MONOTONIC.
    pub start_ns: u64,
}

/// Statistics of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Statistics of the scheduler.
    pub scheduling: Scheduling,
    /// Counts of perf events, at most one for each event.
    pub counters: Vec<EventCount>,
}

impl ProcessStats {
    /// Adds later statistics of the same process.
    pub fn merge(&mut self, more: &Self) {
        self.scheduling.merge(&more.scheduling);
        more.counters.iter().for_each(|count| self.count(count));
    }

    /// Adds a later count of one event.
    fn count(&mut self, more: &EventCount) {
        match self.counters.iter_mut().find(|known| known.event == more.event) {
            Some(known) => known.add(more),
            None => self.counters.push(*more),
        }
    }
}

/// The count of one event, and for how long it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCount {
    /// Number of the event.
    pub event: u32,
    /// Number of occurrences.
    pub value: u64,
    /// Time for which the event was enabled.
    pub enabled_ns: u64,
    /// Time for which the event was counting on the hardware.
    pub running_ns: u64,
}

impl EventCount {
    fn add(&mut self, more: &Self) {
        self.value = self.value.saturating_add(more.value);
        self.enabled_ns = self.enabled_ns.saturating_add(more.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(more.running_ns);
    }
}

impl StatsMaps {
    /// Finds the maps by name.
    pub(crate) fn find(
        map: impl Fn(&'static str) -> Result<MapHandle, Error>,
        cpus: u32,
        words: ControlWords,
    ) -> Result<Self, Error> {
        Ok(Self {
            all: map("schedules")?,
            events: map("split_events")?,
            cpus,
            readings: map("split_last")?,
            tables: [
                StatsTables {
                    schedules: map("process_schedules_a")?,
                    buckets: map("process_buckets_a")?,
                    counters: map("process_counters_a")?,
                },
                StatsTables {
                    schedules: map("process_schedules_b")?,
                    buckets: map("process_buckets_b")?,
                    counters: map("process_counters_b")?,
                },
            ],
            switch: Switch::new(words, control::STATS_CHANGES),
        })
    }

    /// The statistics of all followed threads together.
    pub(crate) fn all(&self) -> Result<Scheduling, Error> {
        let mut sum = Scheduling::default();
        for cpu in 0..self.all.max_entries() {
            let bytes = self.all.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).map_err(failed("schedules"))?;
            let Some(bytes) = bytes else { continue };
            let words = words(&bytes);
            let at = |offset: usize| words.get(offset / 8..).unwrap_or_default();
            sum.merge(&Scheduling {
                context_switches: switches(at(offset_of!(types::schedule, switches))),
                migrations: first(at(offset_of!(types::schedule, migrations))),
                on_cpu_ns_total: first(at(offset_of!(types::schedule, on_cpu_ns))),
                on_cpu: histogram(at(offset_of!(types::schedule, on_cpu))),
                runqueue: histogram(at(offset_of!(types::schedule, runqueue))),
            });
        }
        Ok(sum)
    }

    /// Enters the descriptor of an event, so that the programs can read the event.
    pub(crate) fn split_event(
        &self,
        event: usize,
        cpu: u32,
        descriptor: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let place = event as u32 * self.cpus + cpu;
        let value = descriptor.as_raw_fd().to_ne_bytes();
        let entered = self.events.update(&place.to_ne_bytes(), &value, MapFlags::ANY);
        entered.map_err(|source| Error::Map { action: "enter an event into", map: "split_events", source })
    }

    /// Enters the events of a CPU again. They count from 0.
    pub(crate) fn split_events_again(
        &self,
        pool: &mut TablePool,
        cpu: u32,
        events: &[(usize, BorrowedFd<'_>)],
    ) -> Result<(), Error> {
        // Remove the events first: a running program could note a last reading of the old event.
        self.no_split_events(cpu)?;
        pool.wait_for_programs()?;
        self.forget_readings(cpu)?;
        events.iter().try_for_each(|(event, descriptor)| self.split_event(*event, cpu, *descriptor))
    }

    /// Removes the events of a CPU.
    pub(crate) fn no_split_events(&self, cpu: u32) -> Result<(), Error> {
        let places = (cpu..self.events.max_entries()).step_by(self.cpus as usize);
        places.map(|place| self.no_event(place)).fold(Ok(()), Result::and)
    }

    /// Removes the event that [`Self::split_event`] entered, if there is one.
    fn no_event(&self, place: u32) -> Result<(), Error> {
        match self.events.delete(&place.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::Map { action: "take an event out of", map: "split_events", source: error })
            }
            _ => Ok(()),
        }
    }

    /// Clears the last readings of a CPU, so that its next reading counts as the first.
    fn forget_readings(&self, cpu: u32) -> Result<(), Error> {
        let none = [0; size_of::<types::split_counts>()];
        let entered = self.readings.update(&cpu.to_ne_bytes(), &none, MapFlags::ANY);
        entered.map_err(|source| Error::Map { action: "write", map: "split_last", source })
    }

    /// Takes the statistics of each process since the last call, while the programs go on.
    pub(crate) fn take(&mut self, pool: &mut TablePool) -> Result<BTreeMap<ProcessId, ProcessStats>, Error> {
        self.switch.change(pool)?;
        self.tables[self.switch.other()].empty()
    }
}

impl StatsTables {
    fn empty(&self) -> Result<BTreeMap<ProcessId, ProcessStats>, Error> {
        let mut found: BTreeMap<ProcessId, ProcessStats> = BTreeMap::new();
        let emptied = batch::empty(&self.schedules, |key: [u64; 2], words: [u64; PROCESS_WORDS]| {
            let at = |offset: usize| words.get(offset / 8..).unwrap_or_default();
            let (process, _) = halves(key);
            found.entry(process).or_default().scheduling.merge(&Scheduling {
                context_switches: switches(at(offset_of!(types::process_schedule, switches))),
                migrations: first(at(offset_of!(types::process_schedule, migrations))),
                on_cpu_ns_total: first(at(offset_of!(types::process_schedule, on_cpu_ns))),
                on_cpu: durations(at(offset_of!(types::process_schedule, on_cpu)), &[]),
                runqueue: durations(at(offset_of!(types::process_schedule, runqueue)), &[]),
            });
        });
        emptied.map_err(not_emptied("process_schedules"))?;
        let emptied = batch::empty(&self.buckets, |key: [u64; 2], [values]: [u64; 1]| {
            let (process, [kind, bucket]) = halves(key);
            let scheduling = &mut found.entry(process).or_default().scheduling;
            let histogram = if kind == ON_CPU { &mut scheduling.on_cpu } else { &mut scheduling.runqueue };
            histogram.add_bucket(bucket.into(), values);
        });
        emptied.map_err(not_emptied("process_buckets"))?;
        let emptied = batch::empty(&self.counters, |key: [u64; 2], words: [u64; COUNT_WORDS]| {
            let (process, _) = halves(key);
            let [value, enabled_ns, running_ns] = words;
            let event = upper_half(key[1]);
            let more = EventCount { event, value, enabled_ns, running_ns };
            found.entry(process).or_default().count(&more);
        });
        emptied.map_err(not_emptied("process_counters"))?;
        Ok(found)
    }
}

/// Splits a key into the process and its last four bytes as two numbers.
fn halves([start_ns, rest]: [u64; 2]) -> (ProcessId, [u16; 2]) {
    let [a, b, c, d, e, f, g, h] = rest.to_ne_bytes();
    let pid = u32::from_ne_bytes([a, b, c, d]);
    (ProcessId { pid, start_ns }, [u16::from_ne_bytes([e, f]), u16::from_ne_bytes([g, h])])
}

/// The last four bytes of a key as one number.
fn upper_half(word: u64) -> u32 {
    let [.., e, f, g, h] = word.to_ne_bytes();
    u32::from_ne_bytes([e, f, g, h])
}

fn not_emptied(map: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Map { action: "empty", map, source: source.into() }
}

fn failed(map: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Map { action: "read", map, source }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

fn first(words: &[u64]) -> u64 {
    words.first().copied().unwrap_or(0)
}

fn switches(words: &[u64]) -> ContextSwitches {
    let at = |state: State| words.get(state as usize).copied().unwrap_or(0);
    ContextSwitches {
        preempted: at(State::Preempted),
        voluntary: at(State::Blocked),
        io_wait: at(State::IoWait),
    }
}

fn histogram(words: &[u64]) -> Histogram {
    durations(words, words.get(4..4 + HISTOGRAM_BUCKETS).unwrap_or_default())
}

fn durations(words: &[u64], buckets: &[u64]) -> Histogram {
    match words {
        [count, sum_ns, min_ns, max_ns, ..] => {
            Histogram::from_parts(*count, *sum_ns, *min_ns, *max_ns, buckets)
        }
        _ => Histogram::new(),
    }
}
