//! The events that perf knows by bare names: the numbers that the kernel has for them.
//!
//! In: tables only. How a text names an event is in `grammar`.

use perf_abi::numbers::{cache, cache_op, cache_result, event_type, hardware, software};

/// An event of the kernel's fixed sets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedEvent {
    /// The name that perf prefers.
    pub name: String,
    /// perf's other name for it, if it has one.
    pub also: Option<&'static str>,
    /// "hardware", "software", "cache" or "pmu".
    pub set: &'static str,
    /// `type` of its attribute.
    pub kind: u32,
    /// `config` of its attribute.
    pub config: u64,
    /// `config1` and `config2`.
    pub further: [u64; 2],
}

impl NamedEvent {
    /// Whether this is one of its names.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.also == Some(name)
    }
}

type Row = (&'static str, Option<&'static str>, u64);

const HARDWARE: [Row; 10] = [
    ("cycles", Some("cpu-cycles"), hardware::CPU_CYCLES),
    ("instructions", None, hardware::INSTRUCTIONS),
    ("cache-references", None, hardware::CACHE_REFERENCES),
    ("cache-misses", None, hardware::CACHE_MISSES),
    ("branches", Some("branch-instructions"), hardware::BRANCH_INSTRUCTIONS),
    ("branch-misses", None, hardware::BRANCH_MISSES),
    ("bus-cycles", None, hardware::BUS_CYCLES),
    ("stalled-cycles-frontend", Some("idle-cycles-frontend"), hardware::STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", Some("idle-cycles-backend"), hardware::STALLED_CYCLES_BACKEND),
    ("ref-cycles", None, hardware::REF_CPU_CYCLES),
];

const SOFTWARE: [Row; 11] = [
    ("cpu-clock", None, software::CPU_CLOCK),
    ("task-clock", None, software::TASK_CLOCK),
    ("page-faults", Some("faults"), software::PAGE_FAULTS),
    ("context-switches", Some("cs"), software::CONTEXT_SWITCHES),
    ("cpu-migrations", Some("migrations"), software::CPU_MIGRATIONS),
    ("minor-faults", None, software::PAGE_FAULTS_MIN),
    ("major-faults", None, software::PAGE_FAULTS_MAJ),
    ("alignment-faults", None, software::ALIGNMENT_FAULTS),
    ("emulation-faults", None, software::EMULATION_FAULTS),
    ("bpf-output", None, software::BPF_OUTPUT),
    ("cgroup-switches", None, software::CGROUP_SWITCHES),
];

const CACHES: [(&str, u64); 7] = [
    ("L1-dcache", cache::L1D),
    ("L1-icache", cache::L1I),
    ("LLC", cache::LL),
    ("dTLB", cache::DTLB),
    ("iTLB", cache::ITLB),
    ("branch", cache::BPU),
    ("node", cache::NODE),
];

const OPERATIONS: [(&str, u64, u64); 6] = [
    ("-loads", cache_op::READ, cache_result::ACCESS),
    ("-load-misses", cache_op::READ, cache_result::MISS),
    ("-stores", cache_op::WRITE, cache_result::ACCESS),
    ("-store-misses", cache_op::WRITE, cache_result::MISS),
    ("-prefetches", cache_op::PREFETCH, cache_result::ACCESS),
    ("-prefetch-misses", cache_op::PREFETCH, cache_result::MISS),
];

/// All hardware, software and cache events, by perf's names.
#[must_use]
pub fn named_events() -> Vec<NamedEvent> {
    let named = |&(name, also, config): &Row, set, kind| NamedEvent {
        name: name.to_owned(),
        also,
        set,
        kind,
        config,
        further: [0; 2],
    };
    let mut all: Vec<NamedEvent> =
        HARDWARE.iter().map(|event| named(event, "hardware", event_type::HARDWARE)).collect();
    all.extend(SOFTWARE.iter().map(|event| named(event, "software", event_type::SOFTWARE)));
    for (cache, id) in CACHES {
        let event = |(operation, op, result): &(&str, u64, u64)| NamedEvent {
            name: format!("{cache}{operation}"),
            also: None,
            set: "cache",
            kind: event_type::HW_CACHE,
            config: id | op << 8 | result << 16,
            further: [0; 2],
        };
        all.extend(OPERATIONS.iter().map(event));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_events() {
        let all = named_events();
        let mut names: Vec<&str> =
            all.iter().flat_map(|event| [Some(event.name.as_str()), event.also]).flatten().collect();
        let given = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), given);
    }
}
