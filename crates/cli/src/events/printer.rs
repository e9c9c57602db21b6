//! An event as a line: text for people, or one JSON object.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ::events::monitor::{Body, EventId, Fields, Item, MonitorStats, RecordBody, Value};
use ::events::stack_reader::StackSample;
use perfagent::{EventFrame, EventStack, EventStacks, visible};
use serde_json::{Map, json};

use super::thread_names::ThreadNames;

/// An event as its lines show it.
pub struct PrintedEvent {
    pub name: String,
    /// It is where a function of a program returns.
    pub is_return: bool,
}

/// Prints items.
pub struct Printer<W> {
    out: W,
    as_json: bool,
    /// By registration.
    events: BTreeMap<EventId, PrintedEvent>,
    threads: ThreadNames,
    /// Set by the first item: from there on, records report new threads.
    has_begun: bool,
    /// Events that were printed.
    pub printed: u64,
}

impl<W: Write> Printer<W> {
    /// Prints on `out`. `events`: what the events are called.
    pub fn new(out: W, as_json: bool, events: BTreeMap<EventId, PrintedEvent>) -> Self {
        let mut threads = ThreadNames::default();
        // Some will have ended when their first event is printed.
        threads.add_living();
        Self { out, as_json, events, threads, has_begun: false, printed: 0 }
    }

    /// Prints an event or a loss, and takes in what a record tells of threads. `stacks`: if the stack of each event is printed too.
    pub fn item(&mut self, item: &Item<'_>, stacks: Option<&mut EventStacks>) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.threads.add_living();
        }
        let threads = &mut self.threads;
        let event = item.event.and_then(|id| self.events.get(&id));
        let name = event.map_or("threads", |event| event.name.as_str());
        let is_return = event.is_some_and(|event| event.is_return);
        match &item.body {
            Body::Event(fields) => {
                self.printed += 1;
                let (pid, tid) = (item.meta.id.pid.unwrap_or(0), item.meta.id.tid.unwrap_or(0));
                let comm = threads.of(tid);
                let stack = stacks.map(|stacks| {
                    let sample = StackSample::of(&fields.sample);
                    if is_return { stacks.of_return(&sample) } else { stacks.of(&sample) }
                });
                if self.as_json {
                    let mut line = event_as_json(name, item, (pid, tid, comm), fields);
                    if let Some(stack) = &stack {
                        add_stack_as_json(stack, &mut line);
                    }
                    writeln!(self.out, "{line}")
                } else {
                    let (seconds, micros) =
                        (item.meta.time_ns / 1_000_000_000, item.meta.time_ns / 1000 % 1_000_000);
                    let late = if item.meta.late { " (late)" } else { "" };
                    let (comm, cpu) = (visible(comm), item.meta.cpu);
                    write!(self.out, "{comm:>16} {tid:>7} [{cpu:03}] {seconds}.{micros:06}{late} {name}:")?;
                    for (name, value) in own_values(fields) {
                        match value {
                            Some(value) => write!(self.out, " {name}={}", Shown(value))?,
                            None => write!(self.out, " {name}=null")?,
                        }
                    }
                    writeln!(self.out)?;
                    stack.map_or(Ok(()), |stack| write_stack(&stack, &mut self.out))
                }
            }
            Body::Lost(count) if self.as_json => {
                let loss = json!({ "event": name, "cpu": item.meta.cpu, "count": count });
                writeln!(self.out, "{}", json!({ "lost": loss }))
            }
            Body::Lost(count) => {
                writeln!(
                    self.out,
                    "{count} of {name} are lost on CPU {}: nobody read them in time",
                    item.meta.cpu
                )
            }
            Body::Record(record) => {
                threads.note(record);
                if let (Some(stacks), Some(pid)) = (stacks, changed_process(record)) {
                    stacks.forget(pid);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Prints the last line of JSON, and passes on what it says for people.
    pub fn totals(&mut self, stats: &MonitorStats) -> io::Result<Vec<String>> {
        let of = |id: &EventId| stats.of(Some(*id));
        if self.as_json {
            let total = |(id, event): (&EventId, &PrintedEvent)| {
                let stats = of(id);
                (
                    event.name.clone(),
                    json!({ "delivered": stats.delivered, "lost": stats.lost, "late": stats.late }),
                )
            };
            let all: Map<String, serde_json::Value> = self.events.iter().map(total).collect();
            writeln!(self.out, "{}", json!({ "totals": all, "unknown": stats.unknown_id }))?;
        }
        self.out.flush()?;
        let said = |(id, PrintedEvent { name, .. }): (&EventId, &PrintedEvent)| {
            let stats = of(id);
            let late = if stats.late > 0 { format!(", {} late", stats.late) } else { String::new() };
            format!("{name}: {} seen, {} lost{late}", stats.delivered, stats.lost)
        };
        Ok(self.events.iter().map(said).collect())
    }

    /// Passes on what is held.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The fields that only this tracepoint has, with their values; none where the record has none.
fn own_values<'a>(fields: &Fields<'a>) -> impl Iterator<Item = (&'a str, Option<Value<'a>>)> + use<'a> {
    let own = fields.all().filter(|(field, _)| !field.common);
    own.map(|(field, value)| (field.name.as_str(), value))
}

fn event_as_json(
    name: &str,
    item: &Item<'_>,
    (pid, tid, comm): (u32, u32, &str),
    fields: &Fields<'_>,
) -> serde_json::Value {
    let values: Map<String, serde_json::Value> = own_values(fields)
        .map(|(name, value)| (name.to_owned(), value.map_or(serde_json::Value::Null, as_json)))
        .collect();
    let mut line = json!({
        "event": name, "time_ns": item.meta.time_ns, "wall_ns": item.meta.wall_ns, "cpu": item.meta.cpu,
        "pid": pid, "tid": tid, "comm": comm, "fields": values,
    });
    if item.meta.late {
        line["late"] = true.into();
    }
    line
}

/// The process whose program a record tells to have changed or ended.
fn changed_process(record: &RecordBody<'_>) -> Option<u32> {
    match record {
        RecordBody::Comm { pid, exec: true, .. } => Some(*pid),
        RecordBody::Exit(task) if task.pid == task.tid => Some(task.pid),
        _ => None,
    }
}

/// One line for each frame, then a blank one.
fn write_stack(stack: &EventStack, out: &mut impl Write) -> io::Result<()> {
    for EventFrame { address, function, module, source, .. } in &stack.frames {
        let function = function.as_ref().map_or("[unknown]".into(), |name| visible(name));
        write!(out, "{address:>26x} {function}")?;
        if let Some(module) = module {
            write!(out, " ({})", visible(module))?;
        }
        if let Some((file, line)) = source {
            write!(out, " {}:{line}", visible(file))?;
        }
        writeln!(out)?;
    }
    if let Some(reason) = stack.cut {
        writeln!(out, "{:>26} [cut: {reason}]", "")?;
    }
    writeln!(out)
}

fn add_stack_as_json(stack: &EventStack, line: &mut serde_json::Value) {
    let frame = |frame: &EventFrame| {
        let mut object = Map::from_iter([("address".to_owned(), format!("{:#x}", frame.address).into())]);
        let texts = [("function", &frame.function), ("module", &frame.module)];
        for (key, text) in texts {
            object.extend(text.as_ref().map(|text| (key.to_owned(), text.as_str().into())));
        }
        if let Some((file, line)) = &frame.source {
            object.extend([("file".to_owned(), file.as_str().into()), ("line".to_owned(), (*line).into())]);
        }
        serde_json::Value::Object(object)
    };
    line["stack"] = stack.frames.iter().map(frame).collect();
    if let Some(reason) = stack.cut {
        line["cut"] = reason.into();
    }
}

fn as_json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Unsigned(number) => number.into(),
        Value::Signed(number) => number.into(),
        Value::Text { text, .. } => String::from_utf8_lossy(text).into(),
        Value::Array(elements) => elements.iter().map(as_json).collect(),
        Value::Bytes(bytes) => hex(bytes).into(),
        _ => serde_json::Value::Null,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as people read it.
struct Shown<'a>(Value<'a>);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Value::Unsigned(number) => write!(out, "{number}"),
            Value::Signed(number) => write!(out, "{number}"),
            Value::Text { text, .. } => write!(out, "{}", visible(&String::from_utf8_lossy(text))),
            Value::Array(elements) => {
                out.write_str("[")?;
                for (at, element) in elements.iter().enumerate() {
                    write!(out, "{}{}", if at > 0 { ", " } else { "" }, Shown(element))?;
                }
                out.write_str("]")
            }
            Value::Bytes(bytes) => out.write_str(&hex(bytes)),
            _ => Ok(()),
        }
    }
}
