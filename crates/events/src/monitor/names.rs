//! Events as text: `tracepoint:sched:sched_switch`, `sched:sched_switch period=10`, `page-faults`, `hw:cycles`, `raw:0x1a8`, `bp:0x1234:4:rw`.

use perf_abi::numbers::{cache, cache_op, cache_result, event_type, hardware, software};

use super::probe::Probe;
use super::request::{Access, EventRequest};

/// A text that names no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {text:?}: {reason}")]
pub struct EventTextError {
    /// The text.
    pub text: String,
    /// Why.
    pub reason: String,
}

/// An event of the kernel's fixed sets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedEvent {
    /// perf's name.
    pub name: String,
    /// "hardware", "software" or "cache".
    pub set: &'static str,
    /// `type` of its attribute.
    pub kind: u32,
    /// `config` of its attribute.
    pub config: u64,
}

const HARDWARE: [(&str, u64); 12] = [
    ("cycles", hardware::CPU_CYCLES),
    ("cpu-cycles", hardware::CPU_CYCLES),
    ("instructions", hardware::INSTRUCTIONS),
    ("cache-references", hardware::CACHE_REFERENCES),
    ("cache-misses", hardware::CACHE_MISSES),
    ("branches", hardware::BRANCH_INSTRUCTIONS),
    ("branch-instructions", hardware::BRANCH_INSTRUCTIONS),
    ("branch-misses", hardware::BRANCH_MISSES),
    ("bus-cycles", hardware::BUS_CYCLES),
    ("stalled-cycles-frontend", hardware::STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", hardware::STALLED_CYCLES_BACKEND),
    ("ref-cycles", hardware::REF_CPU_CYCLES),
];

const SOFTWARE: [(&str, u64); 14] = [
    ("cpu-clock", software::CPU_CLOCK),
    ("task-clock", software::TASK_CLOCK),
    ("page-faults", software::PAGE_FAULTS),
    ("faults", software::PAGE_FAULTS),
    ("context-switches", software::CONTEXT_SWITCHES),
    ("cs", software::CONTEXT_SWITCHES),
    ("cpu-migrations", software::CPU_MIGRATIONS),
    ("migrations", software::CPU_MIGRATIONS),
    ("minor-faults", software::PAGE_FAULTS_MIN),
    ("major-faults", software::PAGE_FAULTS_MAJ),
    ("alignment-faults", software::ALIGNMENT_FAULTS),
    ("emulation-faults", software::EMULATION_FAULTS),
    ("bpf-output", software::BPF_OUTPUT),
    ("cgroup-switches", software::CGROUP_SWITCHES),
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
    let named = |(name, config): &(&str, u64), set, kind| NamedEvent {
        name: (*name).to_owned(),
        set,
        kind,
        config: *config,
    };
    let mut all: Vec<NamedEvent> =
        HARDWARE.iter().map(|event| named(event, "hardware", event_type::HARDWARE)).collect();
    all.extend(SOFTWARE.iter().map(|event| named(event, "software", event_type::SOFTWARE)));
    for (cache, id) in CACHES {
        let event = |(operation, op, result): &(&str, u64, u64)| NamedEvent {
            name: format!("{cache}{operation}"),
            set: "cache",
            kind: event_type::HW_CACHE,
            config: id | op << 8 | result << 16,
        };
        all.extend(OPERATIONS.iter().map(event));
    }
    all
}

/// Reads an event and its keys: `EVENT [period=N]`. All other keys of a probe are its arguments.
///
/// # Errors
/// [`EventTextError`] tells which part is not understood, and what is.
pub fn parse_event(text: &str) -> Result<EventRequest, EventTextError> {
    let refuse = |reason: String| EventTextError { text: text.to_owned(), reason };
    let mut words = text.split_ascii_whitespace();
    let event = words.next().ok_or_else(|| refuse("it is empty".to_owned()))?;
    let probe = probe_of(event).transpose().map_err(refuse)?;
    let mut request = probe
        .clone()
        .map_or_else(|| event_of(event), |probe| Ok(EventRequest::probe(probe)))
        .map_err(refuse)?;
    let mut arguments = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| refuse(format!("`{word}` is no KEY=VALUE")))?;
        request = match key {
            "period" => match value.parse() {
                Ok(period @ 1..) => request.period(period),
                _ => return Err(refuse(format!("period: `{value}` is no number from 1 on"))),
            },
            _ if probe.is_some() => {
                arguments.push(word);
                request
            }
            _ => return Err(refuse(format!("there is no key `{key}`; there is period"))),
        };
    }
    Ok(match probe {
        Some(probe) if !arguments.is_empty() => request.with_probe(probe.args(&arguments.join(" "))),
        _ => request,
    })
}

/// A probe, if the text begins with the kind of one.
fn probe_of(text: &str) -> Option<Result<Probe, String>> {
    let (kind, rest) = text.split_once(':')?;
    Probe::parse(kind, rest)
}

fn event_of(text: &str) -> Result<EventRequest, String> {
    let Some((kind, rest)) = text.split_once(':') else { return named(text, None) };
    match kind {
        "tracepoint" | "tp" => tracepoint(rest),
        "hw" => named(rest, Some("hardware")),
        "sw" => named(rest, Some("software")),
        "cache" => named(rest, Some("cache")),
        "raw" => {
            let number = rest.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let config = number.ok_or_else(|| format!("`{rest}` is no number such as 0x1a8"))?;
            Ok(EventRequest::numbered(event_type::RAW, config, text))
        }
        "bp" => breakpoint(rest),
        _ => tracepoint(text),
    }
}

fn tracepoint(name: &str) -> Result<EventRequest, String> {
    match name.split_once([':', '/']) {
        Some((group, event)) if !group.is_empty() && !event.is_empty() && !event.contains([':', '/']) => {
            Ok(EventRequest::tracepoint(name))
        }
        _ => Err("a tracepoint is GROUP:NAME; `perf-agent events list` shows all".to_owned()),
    }
}

fn named(name: &str, set: Option<&str>) -> Result<EventRequest, String> {
    let known =
        named_events().into_iter().find(|event| event.name == name && set.is_none_or(|set| event.set == set));
    match known {
        Some(event) => Ok(EventRequest::numbered(event.kind, event.config, name)),
        None => {
            let set = set.map_or(String::new(), |set| format!("{set} "));
            Err(format!("there is no such {set}event; `perf-agent events list` shows all"))
        }
    }
}

fn breakpoint(text: &str) -> Result<EventRequest, String> {
    let mut parts = text.split(':');
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let address = parts.next().and_then(number).ok_or("a breakpoint is ADDRESS[:LENGTH]:rwx")?;
    let rest: Vec<&str> = parts.collect();
    let (len, letters) = match rest.as_slice() {
        [letters] => (None, *letters),
        [len, letters] => (Some(number(len).ok_or_else(|| format!("`{len}` is no length"))?), *letters),
        _ => return Err("a breakpoint is ADDRESS[:LENGTH]:rwx".to_owned()),
    };
    let has = |letter| letters.contains(letter);
    let access = Access { read: has('r'), write: has('w'), execute: has('x') };
    if letters.is_empty()
        || !letters.chars().all(|letter| "rwx".contains(letter))
        || access.execute && (access.read || access.write)
    {
        return Err(format!("`{letters}` is none of r, w, rw, x"));
    }
    let len = len.unwrap_or(if access.execute { size_of::<usize>() as u64 } else { 4 });
    if !matches!(len, 1 | 2 | 4 | 8) {
        return Err(format!("{len} is none of the lengths 1, 2, 4, 8"));
    }
    Ok(EventRequest::breakpoint(address, len, access))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let request = parse_event(text).unwrap();
        format!("{:?} {:?}", request.what, request.period)
    }

    #[test]
    fn all_forms_of_events_are_understood() {
        for text in [
            "sched:sched_switch",
            "tracepoint:sched:sched_switch",
            "tp:sched:sched_switch",
            "sched/sched_switch x",
        ] {
            if text.ends_with('x') {
                assert!(parse_event(text).is_err());
            } else {
                assert_eq!(shown(text), "Tracepoint(\"sched:sched_switch\") None");
            }
        }
        assert_eq!(
            shown("page-faults period=10"),
            "Numbered { kind: 1, config: 2, name: \"page-faults\" } Some(10)"
        );
        assert_eq!(shown("hw:cycles"), "Numbered { kind: 0, config: 0, name: \"cycles\" } None");
        assert_eq!(
            shown("LLC-load-misses"),
            "Numbered { kind: 3, config: 65538, name: \"LLC-load-misses\" } None"
        );
        assert_eq!(shown("raw:0x1a8"), "Numbered { kind: 4, config: 424, name: \"raw:0x1a8\" } None");
        let request = parse_event("uretprobe:/bin/sh:f a=%di:s64 period=3 b=+0(%si):string").unwrap();
        let probe = Probe::uprobe("/bin/sh", "f").ret().args("a=%di:s64 b=+0(%si):string");
        assert_eq!((request.what, request.period), (EventRequest::probe(probe).what, Some(3)));
        let access = "Access { read: true, write: true, execute: false }";
        assert_eq!(
            shown("bp:0x10:8:rw"),
            format!("Breakpoint {{ address: 16, len: 8, access: {access} }} None")
        );
    }

    #[test]
    fn what_is_no_event_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("nonsense", "events list"),
            ("hw:page-faults", "no such hardware event"),
            ("a:", "GROUP:NAME"),
            ("a:b:c", "GROUP:NAME"),
            ("raw:12", "0x1a8"),
            ("kprobe:", "name a function"),
            ("uprobe:/bin/sh", "PATH:SYMBOL"),
            ("uprobe:/bin/sh:f x", "KEY=VALUE"),
            ("uprobe:/bin/sh:f period=x", "from 1 on"),
            ("usdt:/bin/sh:f", "PATH:PROVIDER:NAME"),
            ("cycles period=0", "from 1 on"),
            ("cycles color=red", "no key `color`"),
            ("cycles period", "KEY=VALUE"),
            ("bp:0x10", "rwx"),
            ("bp:0x10:3:r", "lengths"),
            ("bp:0x10:rx", "none of r, w, rw, x"),
        ] {
            let error = parse_event(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "[a-z:0-9= x/]{0,30}") {
            let _ = parse_event(&text);
        }
    }
}
