//! Events by name.

use sys::perf;

/// The default counters.
pub const DEFAULT_COUNTERS: [&str; 3] = ["cycles", "instructions", "cache-misses"];

/// Numbers of `PERF_COUNT_HW_*`.
const HARDWARE: [(&str, u64); 10] = [
    ("cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branches", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("ref-cycles", 9),
];

/// Numbers of `PERF_COUNT_SW_*`.
const SOFTWARE: [(&str, u64, Unit); 9] = [
    ("cpu-clock", 0, Unit::Nanoseconds),
    ("task-clock", 1, Unit::Nanoseconds),
    ("page-faults", 2, Unit::Events),
    ("context-switches", 3, Unit::Events),
    ("cpu-migrations", 4, Unit::Events),
    ("minor-faults", 5, Unit::Events),
    ("major-faults", 6, Unit::Events),
    ("alignment-faults", 7, Unit::Events),
    ("emulation-faults", 8, Unit::Events),
];

/// Numbers of `PERF_COUNT_HW_CACHE_*`: the cache, then operation and result.
const CACHES: [(&str, u64); 7] =
    [("L1-dcache", 0), ("L1-icache", 1), ("LLC", 2), ("dTLB", 3), ("iTLB", 4), ("branch", 5), ("node", 6)];
const CACHE_OPERATIONS: [(&str, u64); 4] =
    [("-loads", 0), ("-load-misses", 1 << 16), ("-stores", 1 << 8), ("-store-misses", (1 << 8) | (1 << 16))];

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Events.
    Events,
    /// Nanoseconds.
    Nanoseconds,
}

/// The name of an unknown event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event {name:?}; known are {}, rHEX", UnknownEvent::known().join(", "))]
pub struct UnknownEvent {
    /// The name.
    pub name: String,
}

impl UnknownEvent {
    /// The names of all events except raw ones.
    #[must_use]
    pub fn known() -> Vec<String> {
        let caches = CACHES.iter().flat_map(|(cache, _)| {
            CACHE_OPERATIONS.iter().map(move |(operation, _)| format!("{cache}{operation}"))
        });
        let hardware = HARDWARE.iter().map(|(name, _)| (*name).to_owned());
        let software = SOFTWARE.iter().map(|(name, ..)| (*name).to_owned());
        hardware.chain(software).chain(caches).collect()
    }
}

/// An event to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSpec {
    name: String,
    unit: Unit,
    kind: u32,
    config: u64,
}

impl CounterSpec {
    /// The event with this name: `cycles`, `LLC-load-misses`, `page-faults`, or `r` and the hexadecimal number of an
    /// event of the CPU.
    ///
    /// # Errors
    /// [`UnknownEvent`], which lists the known names.
    pub fn parse(name: &str) -> Result<Self, UnknownEvent> {
        let (kind, config, unit) = numbers_of(name).ok_or_else(|| UnknownEvent { name: name.to_owned() })?;
        Ok(Self { name: name.to_owned(), unit, kind, config })
    }

    /// The events of a comma-separated list. A repeated event is counted once.
    ///
    /// # Errors
    /// [`UnknownEvent`] for the first unknown name.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, UnknownEvent> {
        let mut specs: Vec<Self> = Vec::new();
        for name in names.split(',') {
            let spec = Self::parse(name.trim())?;
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        Ok(specs)
    }

    /// The events of [`DEFAULT_COUNTERS`].
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        DEFAULT_COUNTERS.iter().filter_map(|name| Self::parse(name).ok()).collect()
    }

    /// The name as the user wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Whether it is one of [`DEFAULT_COUNTERS`], which are counted together.
    pub(crate) fn is_default(&self) -> bool {
        DEFAULT_COUNTERS.contains(&self.name())
    }

    /// The attribute to open, in user and kernel mode, with times.
    pub(crate) fn attr(&self, flags: u64) -> perf::Attr {
        let read_format = perf::FORMAT_TOTAL_TIME_ENABLED | perf::FORMAT_TOTAL_TIME_RUNNING;
        perf::Attr { kind: self.kind, config: self.config, read_format, flags, ..perf::Attr::default() }
    }
}

/// Type and config of an event.
fn numbers_of(name: &str) -> Option<(u32, u64, Unit)> {
    if let Some((_, config)) = HARDWARE.iter().find(|(known, _)| *known == name) {
        return Some((perf::TYPE_HARDWARE, *config, Unit::Events));
    }
    if let Some((_, config, unit)) = SOFTWARE.iter().find(|(known, ..)| *known == name) {
        return Some((perf::TYPE_SOFTWARE, *config, *unit));
    }
    for (cache, id) in CACHES {
        let operation = name.strip_prefix(cache);
        let known = CACHE_OPERATIONS.iter().find(|(known, _)| operation == Some(known));
        if let Some((_, bits)) = known {
            return Some((perf::TYPE_HW_CACHE, id | bits, Unit::Events));
        }
    }
    let digits = name.strip_prefix('r')?;
    let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let config = u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)?;
    Some((perf::TYPE_RAW, config, Unit::Events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings as header;
    use proptest::prelude::*;

    fn numbers(name: &str) -> (u32, u64) {
        let spec = CounterSpec::parse(name).unwrap();
        (spec.kind, spec.config)
    }

    #[test]
    fn numbers_equal_those_of_the_kernel_header() {
        let hardware = [
            ("cycles", header::PERF_COUNT_HW_CPU_CYCLES),
            ("instructions", header::PERF_COUNT_HW_INSTRUCTIONS),
            ("cache-references", header::PERF_COUNT_HW_CACHE_REFERENCES),
            ("cache-misses", header::PERF_COUNT_HW_CACHE_MISSES),
            ("branches", header::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
            ("branch-misses", header::PERF_COUNT_HW_BRANCH_MISSES),
            ("bus-cycles", header::PERF_COUNT_HW_BUS_CYCLES),
            ("stalled-cycles-frontend", header::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
            ("stalled-cycles-backend", header::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
            ("ref-cycles", header::PERF_COUNT_HW_REF_CPU_CYCLES),
        ];
        assert_eq!(hardware.len(), HARDWARE.len());
        for (name, config) in hardware {
            assert_eq!(numbers(name), (header::PERF_TYPE_HARDWARE, u64::from(config)), "{name}");
        }
        let software = [
            ("cpu-clock", header::PERF_COUNT_SW_CPU_CLOCK),
            ("task-clock", header::PERF_COUNT_SW_TASK_CLOCK),
            ("page-faults", header::PERF_COUNT_SW_PAGE_FAULTS),
            ("context-switches", header::PERF_COUNT_SW_CONTEXT_SWITCHES),
            ("cpu-migrations", header::PERF_COUNT_SW_CPU_MIGRATIONS),
            ("minor-faults", header::PERF_COUNT_SW_PAGE_FAULTS_MIN),
            ("major-faults", header::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
            ("alignment-faults", header::PERF_COUNT_SW_ALIGNMENT_FAULTS),
            ("emulation-faults", header::PERF_COUNT_SW_EMULATION_FAULTS),
        ];
        assert_eq!(software.len(), SOFTWARE.len());
        for (name, config) in software {
            assert_eq!(numbers(name), (header::PERF_TYPE_SOFTWARE, u64::from(config)), "{name}");
        }
        let caches = [
            ("L1-dcache", header::PERF_COUNT_HW_CACHE_L1D),
            ("L1-icache", header::PERF_COUNT_HW_CACHE_L1I),
            ("LLC", header::PERF_COUNT_HW_CACHE_LL),
            ("dTLB", header::PERF_COUNT_HW_CACHE_DTLB),
            ("iTLB", header::PERF_COUNT_HW_CACHE_ITLB),
            ("branch", header::PERF_COUNT_HW_CACHE_BPU),
            ("node", header::PERF_COUNT_HW_CACHE_NODE),
        ];
        assert_eq!(caches.len(), CACHES.len());
        let (read, write) = (header::PERF_COUNT_HW_CACHE_OP_READ, header::PERF_COUNT_HW_CACHE_OP_WRITE);
        let (access, miss) =
            (header::PERF_COUNT_HW_CACHE_RESULT_ACCESS, header::PERF_COUNT_HW_CACHE_RESULT_MISS);
        for (cache, id) in caches {
            for (operation, op, result) in [
                ("loads", read, access),
                ("load-misses", read, miss),
                ("stores", write, access),
                ("store-misses", write, miss),
            ] {
                let config = u64::from(id | (op << 8) | (result << 16));
                let name = format!("{cache}-{operation}");
                assert_eq!(numbers(&name), (header::PERF_TYPE_HW_CACHE, config), "{name}");
            }
        }
        assert_eq!(numbers("r1a8"), (header::PERF_TYPE_RAW, 0x1a8));
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        for name in ["", "cycle", "Cycles", "r", "rxyz", "r+1", "r-1", "r10000000000000000", "LLC-prefetches"]
        {
            let text = CounterSpec::parse(name).unwrap_err().to_string();
            for known in ["cycles", "LLC-load-misses", "page-faults", "rHEX", &format!("{name:?}")] {
                assert!(text.contains(known), "{text}");
            }
        }
        assert!(CounterSpec::parse_list("cycles,,page-faults").is_err());
        for name in UnknownEvent::known() {
            assert_eq!(CounterSpec::parse(&name).unwrap().name(), name);
        }
    }

    #[test]
    fn lists_keep_order_and_drop_repetitions() {
        let specs = CounterSpec::parse_list("page-faults, cycles,page-faults,task-clock").unwrap();
        let names: Vec<_> = specs.iter().map(CounterSpec::name).collect();
        assert_eq!(names, ["page-faults", "cycles", "task-clock"]);
        assert_eq!(specs[2].unit(), Unit::Nanoseconds);
        assert_eq!(CounterSpec::defaults().len(), 3);
    }

    proptest! {
        #[test]
        fn any_name_is_handled(name in "\\PC{0,20}") {
            let _ = CounterSpec::parse_list(&name);
        }
    }
}
