//! The events that perf knows by bare names: the numbers that the kernel has for them, their units and the periods that suit them.

use kernel::SampledIn;
use recording::Unit;
use sys::perf;

/// The numbers of the kernel for a sort of events.
const HARDWARE: u32 = perf::TYPE_HARDWARE;
const SOFTWARE: u32 = perf::TYPE_SOFTWARE;

/// Periods of hardware events by how often they happen: primes, so that no loop runs in step with them.
const OFTEN: u64 = 1_000_003;
const SOMETIMES: u64 = 100_003;
const RARELY: u64 = 10_007;

/// Hardware events: name, another name, `PERF_COUNT_HW_*`, default period.
const HARDWARE_EVENTS: [(&str, &str, u64, u64); 10] = [
    ("cycles", "cpu-cycles", 0, OFTEN),
    ("instructions", "", 1, OFTEN),
    ("cache-references", "", 2, SOMETIMES),
    ("cache-misses", "", 3, RARELY),
    ("branches", "branch-instructions", 4, SOMETIMES),
    ("branch-misses", "", 5, RARELY),
    ("bus-cycles", "", 6, OFTEN),
    ("stalled-cycles-frontend", "idle-cycles-frontend", 7, OFTEN),
    ("stalled-cycles-backend", "idle-cycles-backend", 8, OFTEN),
    ("ref-cycles", "", 9, OFTEN),
];

/// Events that the kernel counts: name, another name, `PERF_COUNT_SW_*`. The first two are clocks.
const SOFTWARE_EVENTS: [(&str, &str, u64); 10] = [
    ("cpu-clock", "", 0),
    ("task-clock", "", 1),
    ("page-faults", "faults", 2),
    ("context-switches", "cs", 3),
    ("cpu-migrations", "migrations", 4),
    ("minor-faults", "", 5),
    ("major-faults", "", 6),
    ("alignment-faults", "", 7),
    ("emulation-faults", "", 8),
    ("cgroup-switches", "", 11),
];
const CLOCKS: usize = 2;
/// The default period of clocks: 99 samples per second, as without an event.
const CLOCK_NS: u64 = 1_000_000_000 / 99;

/// Caches and `PERF_COUNT_HW_CACHE_*`; then what happens there: operation, result, default period.
const CACHES: [(&str, u64); 7] =
    [("L1-dcache", 0), ("L1-icache", 1), ("LLC", 2), ("dTLB", 3), ("iTLB", 4), ("branch", 5), ("node", 6)];
const CACHE_EVENTS: [(&str, u64, u64); 4] = [
    ("loads", 0, SOMETIMES),
    ("load-misses", 1 << 16, RARELY),
    ("stores", 1 << 8, SOMETIMES),
    ("store-misses", (1 << 8) | (1 << 16), RARELY),
];

/// An event by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedEvent {
    /// `type` of the kernel's attribute.
    pub(super) kind: u32,
    /// `config` of the kernel's attribute.
    pub(super) config: u64,
    pub(super) unit: Unit,
    /// The default period.
    pub(super) period: u64,
    pub(super) sampled_in: SampledIn,
}

impl NamedEvent {
    fn hardware(kind: u32, config: u64, period: u64) -> Self {
        Self { kind, config, unit: Unit::Count, period, sampled_in: SampledIn::Hardware }
    }

    /// A raw event of the processor.
    pub(super) fn raw(config: u64) -> Self {
        Self::hardware(perf::TYPE_RAW, config, RARELY)
    }
}

/// Whether the name of an event is one of these two, of which the second may be empty.
fn is_named(name: &str, known: &str, other: &str) -> bool {
    !name.is_empty() && (name == known || name == other)
}

/// The hardware event with this name, and the name that perf prefers.
pub(super) fn hardware(name: &str) -> Option<(String, NamedEvent)> {
    if let Some((name, _, config, period)) =
        HARDWARE_EVENTS.iter().find(|(known, other, ..)| is_named(name, known, other))
    {
        return Some(((*name).to_owned(), NamedEvent::hardware(HARDWARE, *config, *period)));
    }
    CACHES.iter().find_map(|(cache, id)| {
        let event = name.strip_prefix(cache)?.strip_prefix('-')?;
        let (_, bits, period) = CACHE_EVENTS.iter().find(|(known, ..)| event == *known)?;
        Some((name.to_owned(), NamedEvent::hardware(perf::TYPE_HW_CACHE, id | bits, *period)))
    })
}

/// The event with this name that the kernel counts, and the name that perf prefers.
pub(super) fn software(name: &str) -> Option<(String, NamedEvent)> {
    let at = SOFTWARE_EVENTS.iter().position(|(known, other, _)| is_named(name, known, other))?;
    let (name, _, config) = SOFTWARE_EVENTS[at];
    let event =
        NamedEvent { kind: SOFTWARE, config, unit: Unit::Count, period: 1, sampled_in: SampledIn::Task };
    let clock =
        NamedEvent { unit: Unit::Nanoseconds, period: CLOCK_NS, sampled_in: SampledIn::Timer, ..event };
    Some((name.to_owned(), if at < CLOCKS { clock } else { event }))
}

/// The names of all events, without those of caches.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let software = SOFTWARE_EVENTS.iter().map(|(name, ..)| *name);
    software.chain(HARDWARE_EVENTS.iter().map(|(name, ..)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_numbers_of_the_kernel() {
        let numbers =
            |found: Option<(String, NamedEvent)>| found.map(|(_, event)| (event.kind, event.config));
        assert_eq!(numbers(software("page-faults")), Some((1, 2)));
        assert_eq!(numbers(software("cs")), Some((1, 3)));
        assert_eq!(numbers(software("major-faults")), Some((1, 6)));
        assert_eq!(numbers(software("cgroup-switches")), Some((1, 11)));
        assert_eq!(numbers(hardware("cpu-cycles")), Some((0, 0)));
        assert_eq!(numbers(hardware("LLC-load-misses")), Some((3, 2 | 1 << 16)));
        assert_eq!(numbers(hardware("dTLB-stores")), Some((3, 3 | 1 << 8)));
        for none in ["", "LLC", "LLC-", "LLC-misses", "cycles:u"] {
            assert_eq!((numbers(hardware(none)), numbers(software(none))), (None, None), "{none}");
        }
        assert_eq!(software("faults").map(|(name, _)| name).as_deref(), Some("page-faults"));
    }

    #[test]
    fn clocks_count_time_in_timers_and_others_count_in_threads() {
        let clock = software("task-clock").unwrap().1;
        assert_eq!((clock.unit, clock.sampled_in), (Unit::Nanoseconds, SampledIn::Timer));
        let faults = software("minor-faults").unwrap().1;
        assert_eq!((faults.unit, faults.sampled_in, faults.period), (Unit::Count, SampledIn::Task, 1));
    }
}
