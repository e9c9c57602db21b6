//! The event of `--event`, read from its text: `EVENT [period=N]`.

use kernel::SampledIn;
use recording::Unit;

use super::event_names::{self, NamedEvent};

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
}

/// What the event is to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// An event that the kernel or the processor counts: `type` and `config` of the kernel's attribute.
    ByNumbers(u32, u64),
    /// A tracepoint: its group and its name.
    Tracepoint(String, String),
}

impl SampledEvent {
    /// Reads `EVENT [period=N]`, where EVENT is a name of perf, `sw:NAME`, `hw:NAME`, `raw:0xN`, `rHEX`, or a tracepoint:
    /// `tracepoint:GROUP:NAME`, `tp:GROUP:NAME`, `GROUP:NAME`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let word = words.next().ok_or("there is no event")?;
        let found = find(word)?;
        let mut period = None;
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is no KEY=VALUE"))?;
            match key {
                "period" if period.is_some() => return Err("period is given twice".to_owned()),
                "period" => period = Some(read_period(value, found.unit)?),
                "value" => return Err(format!("each event counts one here: there is no value={value}")),
                _ => return Err(format!("there is no key `{key}`: known is period")),
            }
        }
        Ok(Self { period: period.unwrap_or(found.period), ..found })
    }

    fn named(class: &str, (kind, event): (String, NamedEvent)) -> Self {
        Self {
            name: format!("{class}/{kind}"),
            kind,
            unit: event.unit,
            period: event.period,
            sampled_in: event.sampled_in,
            counted: Counted::ByNumbers(event.kind, event.config),
        }
    }

    fn tracepoint(group: &str, event: &str) -> Option<Self> {
        // Both become parts of a path.
        let is_name = |name: &str| {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            !name.is_empty() && name.bytes().all(is_of_name)
        };
        let name = format!("{group}:{event}");
        (is_name(group) && is_name(event)).then(|| Self {
            kind: name.clone(),
            name,
            unit: Unit::Count,
            period: 1,
            sampled_in: SampledIn::Tracepoint,
            counted: Counted::Tracepoint(group.to_owned(), event.to_owned()),
        })
    }

    /// The event as recordings have it.
    pub(crate) fn recorded(&self) -> recording::Event {
        recording::Event::sampled(&self.name, &self.kind, self.period, self.unit)
    }
}

/// The event with its default period.
fn find(word: &str) -> Result<SampledEvent, String> {
    let unknown = || {
        let known: Vec<_> = event_names::known().collect();
        format!(
            "unknown event {word:?}; known are {}, CACHE-loads and the like, raw:0xN, tracepoint:GROUP:NAME",
            known.join(", ")
        )
    };
    let software = |name| event_names::software(name).map(|event| SampledEvent::named("software", event));
    let hardware = |name| event_names::hardware(name).map(|event| SampledEvent::named("hardware", event));
    let raw = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let config = u64::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
        Some(SampledEvent::named("raw", (format!("r{config:x}"), NamedEvent::raw(config))))
    };
    match word.split_once(':') {
        Some(("sw", name)) => software(name),
        Some(("hw", name)) => hardware(name),
        Some(("raw", number)) => number.strip_prefix("0x").and_then(raw),
        Some(("tracepoint" | "tp", name)) => {
            name.split_once(':').and_then(|(group, name)| SampledEvent::tracepoint(group, name))
        }
        Some((group, name)) => SampledEvent::tracepoint(group, name),
        None => software(word).or_else(|| hardware(word)).or_else(|| raw(word.strip_prefix('r')?)),
    }
    .ok_or_else(unknown)
}

fn read_period(text: &str, unit: Unit) -> Result<u64, String> {
    let least = if unit == Unit::Nanoseconds { MIN_CLOCK_PERIOD_NS } else { 1 };
    match text.parse() {
        Ok(period) if (least..=MAX_PERIOD).contains(&period) => Ok(period),
        _ => Err(format!("period=`{text}` is not in {least}..={MAX_PERIOD}")),
    }
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
        assert_eq!(parsed("raw:0x1c2").name, "raw/r1c2");
        assert_eq!(parsed("r1c2"), parsed("raw:0x1c2"));
        let switch = parsed("tracepoint:sched:sched_switch period=3");
        assert_eq!(
            (switch.name.as_str(), switch.kind.as_str()),
            ("sched:sched_switch", "sched:sched_switch")
        );
        assert_eq!((switch.period, switch.sampled_in), (3, SampledIn::Tracepoint));
        assert_eq!(switch.counted, Counted::Tracepoint("sched".to_owned(), "sched_switch".to_owned()));
        for word in ["tp:sched:sched_switch", "sched:sched_switch"] {
            assert_eq!(parsed(word), SampledEvent { period: 1, ..switch.clone() });
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, part) in [
            ("", "no event"),
            ("page-fault", "page-faults"),
            ("sw:cycles", "unknown event"),
            ("raw:1c2", "unknown event"),
            ("r", "unknown event"),
            ("page-faults 16", "`16` is no KEY=VALUE"),
            ("page-faults period=0", "1..="),
            ("page-faults period=9223372036854775808", "period=`9223372036854775808` is not in"),
            ("task-clock period=9999", "10000..="),
            ("cycles period=1 period=2", "twice"),
            ("page-faults value=address", "no value=address"),
            ("tracepoint:sched", "unknown event"),
            ("sched:../x", "unknown event"),
            ("tracepoint:a:b:c", "unknown event"),
            ("uprobe:/bin/x:main", "unknown event"),
            ("page-faults n=2", "no key `n`"),
        ] {
            let refusal = SampledEvent::parse(text).unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
