//! An event and its keys as text: `tracepoint:sched:sched_switch`, `sched:sched_switch period=10`, `page-faults`, `hw:cycles`, `raw:0x1a8`,
//! `r1a8`, `msr/tsc/`, `bp:0x1234:4:rw`, `uprobe:/bin/sh:main n=%di:s32`.
//!
//! In: the one grammar of events, for monitors and for profiles. The events that have names are in `names`, the targets of probes in `probe`.

use perf_abi::numbers::event_type;

use super::names::{NamedEvent, named_events};
use super::pmus::pmu_event;
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

/// An event that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventName {
    /// A tracepoint; whether the kernel has it is not known yet.
    Tracepoint {
        /// Its group, as `sched`.
        group: String,
        /// Its name within the group.
        event: String,
    },
    /// An event of the kernel's fixed sets, or of a PMU of this machine.
    Named(NamedEvent),
    /// `config` of a raw event of the processor.
    Raw(u64),
    /// Accesses to `len` bytes at an address.
    Breakpoint {
        /// The address.
        address: u64,
        /// 1, 2, 4 or 8 bytes.
        len: u64,
        /// Which accesses.
        access: Access,
    },
    /// A probe of a function, with the arguments that the text has.
    Probe(Probe),
}

impl EventName {
    /// A request for it.
    #[must_use]
    pub fn request(&self) -> EventRequest {
        match self {
            Self::Tracepoint { group, event } => EventRequest::tracepoint(&format!("{group}:{event}")),
            Self::Named(event) => EventRequest::numbered(event.kind, event.config, &event.name)
                .with_further_config(event.further),
            Self::Raw(config) => {
                EventRequest::numbered(event_type::RAW, *config, &format!("raw:{config:#x}"))
            }
            Self::Breakpoint { address, len, access } => EventRequest::breakpoint(*address, *len, *access),
            Self::Probe(probe) => EventRequest::probe(probe.clone()),
        }
    }
}

/// What an event's text says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventText {
    /// The event.
    pub name: EventName,
    /// Every how many occurrences, at least 1; for clocks each how many ns.
    pub period: Option<u64>,
    /// The field or argument whose values profiles sum up: `value=FIELD` or `value=FIELD:UNIT`. Streams have all fields.
    pub value: Option<String>,
}

/// Reads an event and its keys: `EVENT [period=N] [value=FIELD]`. All other keys of a probe are its arguments, and so is a `value` that tells a place.
///
/// # Errors
/// [`EventTextError`] tells which part is not understood, and what is.
pub fn read_event(text: &str) -> Result<EventText, EventTextError> {
    let refuse = |reason: String| EventTextError { text: text.to_owned(), reason };
    let mut words = text.split_ascii_whitespace();
    let event = words.next().ok_or_else(|| refuse("it is empty".to_owned()))?;
    let name = name_of(event).map_err(refuse)?;
    let (mut period, mut value, mut arguments) = (None, None, Vec::new());
    for word in words {
        let (key, text) = word.split_once('=').ok_or_else(|| refuse(format!("`{word}` is no KEY=VALUE")))?;
        match (key, &name) {
            ("period", _) if period.is_some() => return Err(refuse("period is given twice".to_owned())),
            ("period", _) => match text.parse() {
                Ok(number @ 1..) => period = Some(number),
                _ => return Err(refuse(format!("period: `{text}` is no number from 1 on"))),
            },
            ("value", _) if is_field(text) && value.is_some() => {
                return Err(refuse("value is given twice".to_owned()));
            }
            ("value", _) if is_field(text) => value = Some(text.to_owned()),
            (_, EventName::Probe(_)) => arguments.push(word),
            _ => return Err(refuse(format!("there is no key `{key}`; there are period and value"))),
        }
    }
    let name = match name {
        EventName::Probe(probe) if !arguments.is_empty() => {
            EventName::Probe(probe.args(&arguments.join(" ")))
        }
        name => name,
    };
    Ok(EventText { name, period, value })
}

/// The same as a request.
///
/// # Errors
/// As [`read_event`].
pub fn parse_event(text: &str) -> Result<EventRequest, EventTextError> {
    let EventText { name, period, value } = read_event(text)?;
    let name = match (name, value) {
        // Of a probe, it is an argument with that name.
        (EventName::Probe(probe), Some(value)) => {
            let argument = format!("value={value}");
            EventName::Probe(probe.and_args(&argument))
        }
        (_, Some(_)) => {
            let reason = "`value` is a key of profiles; here all fields are shown".to_owned();
            return Err(EventTextError { text: text.to_owned(), reason });
        }
        (name, None) => name,
    };
    let request = name.request();
    Ok(match period {
        Some(period) => request.period(period),
        None => request,
    })
}

/// Whether a text names a field, with or without a unit. The places of arguments begin with other letters, or have another type.
fn is_field(text: &str) -> bool {
    let (name, unit) = text.split_once(':').unwrap_or((text, "count"));
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    is_name
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !unit.contains("->")
        && name != "arg"
}

fn name_of(text: &str) -> Result<EventName, String> {
    if text.ends_with('/') {
        return pmu_event(text).map(EventName::Named);
    }
    let Some((kind, rest)) = text.split_once(':') else {
        let raw = || text.strip_prefix('r').and_then(number_of_hex).map(EventName::Raw);
        return named(text, None)
            .or_else(|unknown| if text.contains('/') { tracepoint(text) } else { raw().ok_or(unknown) });
    };
    if let Some(probe) = Probe::parse(kind, rest) {
        return probe.map(EventName::Probe);
    }
    match kind {
        "tracepoint" | "tp" => tracepoint(rest),
        "hw" => named(rest, Some(&["hardware", "cache"])),
        "sw" => named(rest, Some(&["software"])),
        "cache" => named(rest, Some(&["cache"])),
        "raw" => rest
            .strip_prefix("0x")
            .and_then(number_of_hex)
            .map(EventName::Raw)
            .ok_or_else(|| format!("`{rest}` is no number such as 0x1a8")),
        "bp" => breakpoint(rest),
        _ => tracepoint(text),
    }
}

/// A number of hexadecimal digits, without a sign.
fn number_of_hex(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

fn tracepoint(name: &str) -> Result<EventName, String> {
    // Both become parts of a path.
    let is_name = |name: &str| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_of_name)
    };
    match name.split_once([':', '/']) {
        Some((group, event)) if is_name(group) && is_name(event) => {
            Ok(EventName::Tracepoint { group: group.to_owned(), event: event.to_owned() })
        }
        _ => Err("a tracepoint is GROUP:NAME; `perf-agent events list` shows all".to_owned()),
    }
}

fn named(name: &str, sets: Option<&[&str]>) -> Result<EventName, String> {
    let is_wanted = |event: &NamedEvent| sets.is_none_or(|sets| sets.contains(&event.set));
    let known = named_events().into_iter().find(|event| event.is_named(name) && is_wanted(event));
    known.map(EventName::Named).ok_or_else(|| {
        let set = sets.and_then(|sets| sets.first()).map_or(String::new(), |set| format!("{set} "));
        format!("there is no such {set}event; `perf-agent events list` shows all")
    })
}

fn breakpoint(text: &str) -> Result<EventName, String> {
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
    Ok(EventName::Breakpoint { address, len, access })
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
            "sched/sched_switch",
        ] {
            assert_eq!(shown(text), "Tracepoint(\"sched:sched_switch\") None");
        }
        assert_eq!(
            shown("page-faults period=10"),
            "Numbered { kind: 1, config: 2, further: [0, 0], name: \"page-faults\" } Some(10)"
        );
        assert_eq!(
            shown("hw:cycles"),
            "Numbered { kind: 0, config: 0, further: [0, 0], name: \"cycles\" } None"
        );
        assert_eq!(
            shown("LLC-load-misses"),
            "Numbered { kind: 3, config: 65538, further: [0, 0], name: \"LLC-load-misses\" } None"
        );
        assert_eq!(shown("cpu-cycles"), shown("hw:cycles"));
        assert_eq!(shown("hw:LLC-load-misses"), shown("LLC-load-misses"));
        assert_eq!(shown("r1a8"), shown("raw:0x1a8"));
        assert_eq!(
            shown("raw:0x1a8"),
            "Numbered { kind: 4, config: 424, further: [0, 0], name: \"raw:0x1a8\" } None"
        );
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
    fn a_value_is_a_field_in_a_profile_and_an_argument_where_it_tells_a_place() {
        let value = |text: &str| read_event(text).unwrap().value;
        assert_eq!(value("block:block_rq_issue value=bytes").as_deref(), Some("bytes"));
        assert_eq!(value("uprobe:/bin/sh:f n=%di:s64 value=n:bytes").as_deref(), Some("n:bytes"));
        for place in ["%di:s64", "$retval", "+8(%di):u32", "\\7", "@0x10", "arg:request->id"] {
            let probe = Probe::uprobe("/bin/sh", "f").args(&format!("value={place}"));
            let read = read_event(&format!("uprobe:/bin/sh:f value={place}")).unwrap();
            assert_eq!((read.value, read.name), (None, EventName::Probe(probe)), "{place}");
        }
        let request = parse_event("usdt:/bin/sh:p:n a=arg1 value=arg2").unwrap();
        let probe = Probe::usdt("/bin/sh", "p", "n").args("a=arg1 value=arg2");
        assert_eq!(request.what, EventRequest::probe(probe).what);
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
            ("raw:0x+12", "0x1a8"),
            ("r", "events list"),
            ("rock", "events list"),
            ("sched:../x", "GROUP:NAME"),
            ("../x/y", "GROUP:NAME"),
            ("sw:cycles", "no such software event"),
            ("cycles period=1 period=2", "twice"),
            ("kprobe:", "name a function"),
            ("uprobe:/bin/sh", "PATH:SYMBOL"),
            ("uprobe:/bin/sh:f x", "KEY=VALUE"),
            ("uprobe:/bin/sh:f period=x", "from 1 on"),
            ("usdt:/bin/sh:f", "PATH:PROVIDER:NAME"),
            ("cycles period=0", "from 1 on"),
            ("cycles color=red", "no key `color`"),
            ("cycles period", "KEY=VALUE"),
            ("a:b value=c value=d", "twice"),
            ("a:b value=c", "key of profiles"),
            ("a:b value=%di", "no key `value`"),
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
