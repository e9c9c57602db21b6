//! Checks that values are readable and within their limits.

use events::counting::CounterSpec;
use metrics::endpoint::ListenAddress;

use crate::config::event::SampledEvent;
use crate::config::facts::Facts;
use crate::config::labels::RESERVED_LABELS;
use crate::config::request::Request;
use crate::config::setting::Setting;
use crate::config::size::format_size;
use crate::config::{
    DEFAULT_MAX_MEMORY_BYTES, DEFAULT_MAX_STACKS, DEFAULT_RING_BYTES, DEFAULT_SAMPLE_RATE_HZ,
    DEFAULT_TABLE_MEMORY, duration,
};
use crate::error::Error;
use crate::output;

/// Keys with this prefix are reserved for the agent.
const RESERVED_TAG_PREFIX: &str = "perf-agent.";
/// Sizes of the stack map: up to a quarter of a GiB of kernel memory.
const STACKS_RANGE: std::ops::RangeInclusive<u32> = 1..=4_194_304;
/// Memory for stacks: from what a few thousand stacks take to what 64-bit positions in a recording's file can tell.
const MEMORY_RANGE: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 30;
/// Sizes of the ring: from one page to a size well within 32-bit positions.
const RING_RANGE: std::ops::RangeInclusive<u32> = 4_096..=1 << 30;
const TABLES_RANGE: std::ops::RangeInclusive<u32> = 1 << 20..=256 << 20;

pub(super) fn pmu_format(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.pmu_format else { return Ok(()) };
    let message = format!("--pmu-format `{text}` is neither text nor json");
    Err(Error::invalid("--pmu-format", message, "text, the default, is for people, json for programs"))
}

pub(super) fn pmu_events(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.pmu_events else { return Ok(()) };
    match CounterSpec::parse_list(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("--pmu-events `{text}`: {error}");
            Err(Error::invalid("--pmu-events", message, "for example: --pmu-events task-clock,page-faults"))
        }
    }
}

pub(super) fn metrics_listen(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.metrics_listen else { return Ok(()) };
    let reason = ListenAddress::parse(text).err().map(|error| format!(": {error}")).unwrap_or_default();
    let message = format!("--metrics-listen `{text}` is not an address{reason}");
    Err(Error::invalid("--metrics-listen", message, "for example: --metrics-listen :9101"))
}

pub(super) fn off_cpu_states(request: &Request, _: &Facts) -> Result<(), Error> {
    let given = match &request.off_cpu_states {
        Setting::Unreadable(text) => text.as_str(),
        Setting::Value(states) if states.is_empty() => "",
        _ => return Ok(()),
    };
    Err(Error::invalid(
        "--offcpu-states",
        format!("--offcpu-states `{given}` is not a list of blocked, iowait, preempted"),
        "for example: --offcpu-states blocked,iowait,preempted",
    ))
}

pub(super) fn min_block(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.min_block else { return Ok(()) };
    let reason = match duration::parse_duration(text) {
        Err(error) => format!("--min-block `{text}` is not a duration: {error}"),
        Ok(_) => return Ok(()),
    };
    Err(Error::invalid("--min-block", reason, format!("0, or durations like {}", duration::EXAMPLES)))
}

pub(super) fn unwind_mode(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.unwind else { return Ok(()) };
    Err(Error::invalid(
        "--unwind",
        format!("--unwind `{text}` is none of fp, dwarf, auto"),
        "the default, auto, suits almost every case",
    ))
}

pub(super) fn python_frames(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Unreadable(text) = &request.python else { return Ok(()) };
    Err(Error::invalid(
        "--python",
        format!("--python `{text}` is none of auto, off, all"),
        "the default, auto, shows functions of Python in the places of the interpreter's frames",
    ))
}

/// Events that can be sampled at once.
const MAX_EVENTS: usize = kernel::MAX_FURTHER_EVENTS + 1;

pub(super) fn event(request: &Request, _: &Facts) -> Result<(), Error> {
    const EVENT: &str = "--event";
    if let Some(Err(text)) = request.events.iter().find(|event| event.is_err()) {
        let reason = SampledEvent::parse(text).err().map(|reason| format!(": {reason}")).unwrap_or_default();
        let hint = "for example: --event page-faults, --event 'context-switches period=10', --event sched:sched_switch";
        return Err(Error::invalid(EVENT, format!("{EVENT} `{text}`{reason}"), hint));
    }
    if request.events.len() > MAX_EVENTS {
        let reason = format!(
            "{EVENT} is given {} times, and {MAX_EVENTS} events can be sampled at once",
            request.events.len()
        );
        return Err(Error::invalid(EVENT, reason, "leave some out, or take two captures at the same time"));
    }
    let is_again = |number: usize| request.events[..number].contains(&request.events[number]);
    if let Some(Ok(twice)) =
        (1..request.events.len()).find(|number| is_again(*number)).map(|n| &request.events[n])
    {
        let reason = format!("{EVENT} {} is given twice", twice.kind);
        return Err(Error::invalid(EVENT, reason, "give each event once"));
    }
    if !request.events.is_empty() && request.sample_rate.is_given() {
        let reason = "--event and --sample-rate are mutually exclusive: an event is sampled by its count";
        return Err(Error::invalid(
            EVENT,
            reason,
            "drop --sample-rate; to sample less often: 'EVENT period=N'",
        ));
    }
    Ok(())
}

pub(super) fn sample_rate(request: &Request, facts: &Facts) -> Result<(), Error> {
    let max = facts.max_sample_rate;
    let given = match &request.sample_rate {
        Setting::Unreadable(text) => text.clone(),
        setting => {
            let hz = setting.value().copied().unwrap_or(DEFAULT_SAMPLE_RATE_HZ);
            if (1..=max).contains(&hz) {
                return Ok(());
            }
            hz.to_string()
        }
    };
    Err(Error::invalid(
        "--sample-rate",
        format!(
            "--sample-rate `{given}` is not in 1..={max} (kernel.perf_event_max_sample_rate is {max} now)"
        ),
        "99 suits most cases; to raise the kernel's limit: `sysctl -w kernel.perf_event_max_sample_rate=N`",
    ))
}

pub(super) fn capture_length(request: &Request, _: &Facts) -> Result<(), Error> {
    let reason = match &request.duration {
        Setting::Unreadable(text) => match duration::parse_duration(text) {
            Err(error) => format!("--duration `{text}` is not a duration: {error}"),
            Ok(_) => return Ok(()),
        },
        Setting::Value(length) if length.is_zero() => "--duration must be longer than zero".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::invalid("--duration", reason, format!("durations look like {}", duration::EXAMPLES)))
}

pub(super) fn tags(request: &Request, _: &Facts) -> Result<(), Error> {
    for tag in &request.tags {
        let reason = match tag {
            Err(text) => format!("--tag `{text}` has no `=`"),
            Ok((key, value)) if key.is_empty() => format!("--tag `={value}` has an empty key"),
            Ok((key, value)) if key.contains('=') => {
                format!("--tag `{key}` = `{value}` has a `=` in its key")
            }
            Ok((key, value)) if key.starts_with(RESERVED_TAG_PREFIX) => {
                format!("--tag `{key}={value}`: keys starting with `{RESERVED_TAG_PREFIX}` are reserved")
            }
            Ok(_) => continue,
        };
        return Err(Error::invalid("--tag", reason, "for example: --tag build=1234"));
    }
    Ok(())
}

pub(super) fn labels(request: &Request, _: &Facts) -> Result<(), Error> {
    let refused = request.labels.keys().find_map(|key| {
        let reserved = RESERVED_LABELS.contains(&key.as_str());
        (key.is_empty() || reserved)
            .then_some((key, if reserved { "is reserved for the agent" } else { "is empty" }))
    });
    match refused {
        None => Ok(()),
        Some((key, why)) => {
            Err(Error::invalid("label", format!("the label key `{key}` {why}"), "choose another key"))
        }
    }
}

pub(super) fn cpus(request: &Request, facts: &Facts) -> Result<(), Error> {
    let Some(cpus) = &request.cpus else { return Ok(()) };
    if cpus.is_empty() {
        return Err(Error::invalid(
            "cpus",
            "the set of CPUs is empty",
            "leave it out to sample on all of them",
        ));
    }
    let offline = facts.online_cpus.as_ref().and_then(|online| cpus.iter().find(|cpu| !online.contains(cpu)));
    match offline {
        None => Ok(()),
        Some(cpu) => Err(Error::invalid(
            "cpus",
            format!("CPU {cpu} is not online"),
            "see /sys/devices/system/cpu/online",
        )),
    }
}

pub(super) fn map_sizes(request: &Request, _: &Facts) -> Result<(), Error> {
    let shown = |setting: &Setting<u32>, spell: fn(u64) -> String| match setting {
        Setting::Unreadable(text) => Some(text.clone()),
        Setting::Value(value) => Some(spell(u64::from(*value))),
        _ => None,
    };
    let stacks_fit = request.max_stacks.value().is_some_and(|stacks| STACKS_RANGE.contains(stacks));
    if let (Some(given), false) = (shown(&request.max_stacks, |stacks| stacks.to_string()), stacks_fit) {
        return Err(Error::invalid(
            "--max-stacks",
            format!("--max-stacks `{given}` is not in {}..={}", STACKS_RANGE.start(), STACKS_RANGE.end()),
            format!("the default is {DEFAULT_MAX_STACKS}"),
        ));
    }
    let ring_fits =
        request.ring_bytes.value().is_some_and(|bytes| RING_RANGE.contains(bytes) && bytes.is_power_of_two());
    if let (Some(given), false) = (shown(&request.ring_bytes, format_size), ring_fits) {
        let size = |bytes: &u32| format_size(u64::from(*bytes));
        return Err(Error::invalid(
            "--ring-size",
            format!(
                "--ring-size `{given}` is not a power of two from {} to {}",
                size(RING_RANGE.start()),
                size(RING_RANGE.end())
            ),
            format!("the default is {}; suffixes are K, M, G", size(&DEFAULT_RING_BYTES)),
        ));
    }
    let tables_fit = request.table_memory.value().is_some_and(|bytes| TABLES_RANGE.contains(bytes));
    if let (Some(given), false) = (shown(&request.table_memory, format_size), tables_fit) {
        let size = |bytes: &u32| format_size(u64::from(*bytes));
        let (least, most) = (size(TABLES_RANGE.start()), size(TABLES_RANGE.end()));
        return Err(Error::invalid(
            "--table-memory",
            format!("--table-memory `{given}` is not from {least} to {most}"),
            format!("the default is {}; suffixes are K, M, G", size(&DEFAULT_TABLE_MEMORY)),
        ));
    }
    Ok(())
}

pub(super) fn memory(request: &Request, _: &Facts) -> Result<(), Error> {
    let given = match &request.max_memory_bytes {
        Setting::Unreadable(text) => text.clone(),
        Setting::Value(bytes) if !MEMORY_RANGE.contains(bytes) => format_size(*bytes),
        _ => return Ok(()),
    };
    let [least, most, default] =
        [*MEMORY_RANGE.start(), *MEMORY_RANGE.end(), DEFAULT_MAX_MEMORY_BYTES].map(format_size);
    Err(Error::invalid(
        "--max-memory",
        format!("--max-memory `{given}` is not a size from {least} to {most}"),
        format!("the default is {default}; suffixes are K, M, G"),
    ))
}

pub(super) fn outputs(request: &Request, _: &Facts) -> Result<(), Error> {
    let files = request.outputs.iter().filter_map(|(kind, to)| Some((*kind, to.file.value()?)));
    output::check_all(files)
}
