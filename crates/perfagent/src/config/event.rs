//! The event of `--event`: its unit, the period that suits it, and where in the kernel it happens. How events are written is in `events::monitor`.

use events::monitor::{EventName, EventText, NamedEvent, Probe, read_event};
use kernel::SampledIn;
use perf_abi::numbers::{cache_result, event_type, hardware, software};
use recording::{Unit, ValueSpec};

use super::event_value::EventValue;

/// Periods of hardware events by how often they happen: primes, so that no loop runs in step with them.
const OFTEN: u64 = 1_000_003;
const SOMETIMES: u64 = 100_003;
const RARELY: u64 = 10_007;
/// The default period of clocks: 99 samples per second, as without an event.
const CLOCK_NS: u64 = 1_000_000_000 / 99;
/// Software events that count time.
const CLOCKS: [u64; 2] = [software::CPU_CLOCK, software::TASK_CLOCK];
/// The kernel takes no shorter period of a clock.
const MIN_CLOCK_PERIOD_NS: u64 = 10_000;
/// The kernel takes no larger period.
const MAX_PERIOD: u64 = i64::MAX as u64;

/// An event that is sampled instead of time on CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampledEvent {
    /// As ledgers name it: `software/page-faults`.
    pub(crate) name: String,
    /// What is counted, as `page-faults`.
    pub(crate) kind: String,
    /// What it is counted in.
    pub(crate) unit: Unit,
    /// What each sample stands for.
    pub(crate) period: u64,
    /// Where in the kernel it happens.
    pub(crate) sampled_in: SampledIn,
    pub(crate) counted: Counted,
    /// What is summed up besides the number of occurrences.
    pub(crate) value: Option<EventValue>,
}

/// What the event is to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// An event that the kernel or the processor counts: `type` and `config` of the kernel's attribute.
    ByNumbers(u32, u64),
    /// A tracepoint of this group.
    Tracepoint(String),
    /// A probe.
    Probe(Probe),
}

impl SampledEvent {
    /// Reads an event as `perf-agent events trace` does, and gives it the period that suits it if it has none.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let EventText { name, period, value, .. } = read_event(text).map_err(|error| error.reason)?;
        let mut value = value.as_deref().map(EventValue::parse).transpose()?;
        let event = match name {
            EventName::Named(event) if event.further != [0; 2] => {
                return Err(format!(
                    "{} has bits in config1 or config2, by which there are no profiles; `perf-agent events trace` and `stat` take it",
                    event.name
                ));
            }
            EventName::Named(event) => Self::named(&event),
            EventName::Raw(config) => Self::raw(config),
            EventName::Tracepoint { group, event } => Self::tracepoint(group, &event),
            EventName::Probe(probe) => {
                if value.is_none() && probe.has_argument("value") {
                    value = Some(EventValue::parse("value")?);
                }
                if value.is_none() && probe.has_arguments() {
                    return Err(
                        "a profile sums one argument of a probe up: name it, as in a=%di:u64 value=a; \
                         `perf-agent events trace` shows all"
                            .to_owned(),
                    );
                }
                Self::probe(if value.is_some() { probe.read_by_program() } else { probe })
            }
            _ => {
                return Err(
                    "there are no profiles by breakpoints; `perf-agent events trace` shows them".to_owned()
                );
            }
        };
        if value.is_some() && matches!(event.counted, Counted::ByNumbers(..)) {
            return Err(format!("{} has no fields; value=FIELD is for tracepoints and probes", event.kind));
        }
        let event = Self { value, ..event };
        let Some(period) = period else { return Ok(event) };
        let least = if event.unit == Unit::Nanoseconds { MIN_CLOCK_PERIOD_NS } else { 1 };
        if !(least..=MAX_PERIOD).contains(&period) {
            return Err(format!("period: `{period}` is not in {least}..={MAX_PERIOD}"));
        }
        Ok(Self { period, ..event })
    }

    fn named(event: &NamedEvent) -> Self {
        // All events of caches are of the hardware, as ledgers name them.
        let is_software = event.kind == event_type::SOFTWARE;
        let is_clock = is_software && CLOCKS.contains(&event.config);
        let class = if is_software { "software" } else { "hardware" };
        Self {
            name: format!("{class}/{}", event.name),
            kind: event.name.clone(),
            unit: if is_clock { Unit::Nanoseconds } else { Unit::Count },
            period: match event.kind {
                _ if is_clock => CLOCK_NS,
                event_type::SOFTWARE => 1,
                event_type::HARDWARE => period_of_hardware(event.config),
                _ => period_of_cache(event.config),
            },
            sampled_in: match is_software {
                true if is_clock => SampledIn::Timer,
                true => SampledIn::Task,
                false => SampledIn::Hardware,
            },
            counted: Counted::ByNumbers(event.kind, event.config),
            value: None,
        }
    }

    /// A raw event of the processor.
    fn raw(config: u64) -> Self {
        let kind = format!("r{config:x}");
        Self {
            name: format!("raw/{kind}"),
            kind,
            unit: Unit::Count,
            period: RARELY,
            sampled_in: SampledIn::Hardware,
            counted: Counted::ByNumbers(event_type::RAW, config),
            value: None,
        }
    }

    fn probe(probe: Probe) -> Self {
        let name = probe.name();
        Self {
            kind: name.clone(),
            name,
            unit: Unit::Count,
            period: 1,
            sampled_in: match (probe.is_of_kernel(), probe.is_return()) {
                (true, _) => SampledIn::Function,
                (false, true) => SampledIn::Return,
                (false, false) => SampledIn::Program,
            },
            counted: Counted::Probe(probe),
            value: None,
        }
    }

    fn tracepoint(group: String, event: &str) -> Self {
        let name = format!("{group}:{event}");
        Self {
            kind: name.clone(),
            name,
            unit: Unit::Count,
            period: 1,
            sampled_in: SampledIn::Tracepoint,
            counted: Counted::Tracepoint(group),
            value: None,
        }
    }

    /// The event as recordings have it.
    pub(crate) fn recorded(&self) -> recording::Event {
        let mut event = recording::Event::sampled(&self.name, &self.kind, self.period, self.unit);
        event.values.extend(self.value.iter().map(|value| ValueSpec::sum(&value.field, value.unit)));
        event
    }
}

/// How often a hardware event is sampled.
fn period_of_hardware(config: u64) -> u64 {
    match config {
        hardware::CACHE_REFERENCES | hardware::BRANCH_INSTRUCTIONS => SOMETIMES,
        hardware::CACHE_MISSES | hardware::BRANCH_MISSES => RARELY,
        _ => OFTEN,
    }
}

/// The same of an event of a cache: the third byte of its number tells accesses from misses.
fn period_of_cache(config: u64) -> u64 {
    if config >> 16 & 0xff == cache_result::MISS { RARELY } else { SOMETIMES }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SampledEvent {
        SampledEvent::parse(text).unwrap()
    }

    #[test]
    fn names_periods_and_units_are_read() {
        let faults = parsed("page-faults");
        assert_eq!((faults.name.as_str(), faults.kind.as_str()), ("software/page-faults", "page-faults"));
        assert_eq!((faults.period, faults.unit), (1, Unit::Count));
        assert_eq!(faults.counted, Counted::ByNumbers(1, 2));
        assert_eq!(parsed(" faults  period=16 "), SampledEvent { period: 16, ..faults });
        let clock = parsed("sw:task-clock");
        assert_eq!((clock.period, clock.unit), (10_101_010, Unit::Nanoseconds));
        assert_eq!(parsed("hw:cycles period=7").period, 7);
        assert_eq!(parsed("branches").period, SOMETIMES);
        assert_eq!((parsed("LLC-loads").period, parsed("LLC-load-misses").period), (SOMETIMES, RARELY));
        assert_eq!(parsed("LLC-load-misses").name, "hardware/LLC-load-misses");
        assert_eq!(parsed("raw:0x1c2").name, "raw/r1c2");
        assert_eq!(parsed("r1c2"), parsed("raw:0x1c2"));
        let switch = parsed("tracepoint:sched:sched_switch period=3");
        assert_eq!(
            (switch.name.as_str(), switch.kind.as_str()),
            ("sched:sched_switch", "sched:sched_switch")
        );
        assert_eq!((switch.period, switch.sampled_in), (3, SampledIn::Tracepoint));
        assert_eq!(switch.counted, Counted::Tracepoint("sched".to_owned()));
        let probe = parsed("uretprobe:/bin/x:main period=7");
        assert_eq!((probe.name.as_str(), probe.period), ("uretprobe:/bin/x:main", 7));
        assert_eq!((probe.sampled_in, probe.unit), (SampledIn::Return, Unit::Count));
        assert_eq!(parsed("kprobe:vfs_read").sampled_in, SampledIn::Function);
        let summed = parsed("uprobe:/bin/x:main n=%di:u32 value=n:bytes");
        assert_eq!(summed.value, Some(EventValue { field: "n".to_owned(), unit: Unit::Bytes }));
        let recorded = summed.recorded();
        assert_eq!((recorded.kind(), recorded.values[1].name.as_str()), ("uprobe:/bin/x:main", "n"));
        assert_eq!(parsed("uprobe:/bin/x:main value=%di").value.unwrap().field, "value");
        for word in ["tp:sched:sched_switch", "sched:sched_switch"] {
            assert_eq!(parsed(word), SampledEvent { period: 1, ..switch.clone() });
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, part) in [
            ("", "empty"),
            ("page-fault", "events list"),
            ("page-faults period=0", "from 1 on"),
            ("page-faults period=9223372036854775808", "`9223372036854775808` is not in"),
            ("task-clock period=9999", "10000..="),
            ("uprobe:/bin/x:main a=%di", "name it"),
            ("a:b value=c:miles", "miles"),
            ("bp:0x10:rw", "by breakpoints"),
            ("page-faults value=address", "has no fields"),
        ] {
            let refusal = SampledEvent::parse(text).unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
