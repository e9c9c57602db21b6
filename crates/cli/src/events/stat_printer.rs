//! Counts as lines: text for people, or one JSON object for each event.

use std::io::{self, Write};
use std::time::Duration;

use ::events::group::{Counted, GroupReading};
use perfagent::{grouped, visible};
use serde_json::json;

/// Whether an event counts ns.
fn is_clock(name: &str) -> bool {
    matches!(name, "task-clock" | "cpu-clock")
}

/// An event that was asked for.
#[derive(Debug)]
pub struct CountLine {
    pub name: String,
    /// Why it is not counted.
    pub missing: Option<&'static str>,
}

impl CountLine {
    /// The event with this name.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), missing: None }
    }
}

/// From when until when something was counted, since counting began.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Duration,
    pub until: Duration,
}

/// Prints counts.
pub struct StatPrinter<W> {
    out: W,
    as_json: bool,
    whom: String,
    lines: Vec<CountLine>,
}

impl<W: Write> StatPrinter<W> {
    /// Prints on `out`. `whom`: what was counted, for people.
    pub fn new(out: W, as_json: bool, whom: String, lines: Vec<CountLine>) -> Self {
        Self { out, as_json, whom, lines }
    }

    /// Prints what came between two readings. The earlier one is empty at first.
    pub fn counts(&mut self, span: Span, now: &GroupReading, before: &GroupReading) -> io::Result<()> {
        let Self { out, as_json, whom, lines } = self;
        let sums = now.sums.iter().enumerate();
        let differences: Vec<Counted> =
            sums.map(|(at, sum)| before.sums.get(at).map_or(*sum, |before| sum.since(before))).collect();
        let mut counted = differences.iter();
        let counts: Vec<(&CountLine, Option<&Counted>)> = lines
            .iter()
            .map(|line| (line, if line.missing.is_none() { counted.next() } else { None }))
            .collect();
        if *as_json {
            for (line, count) in counts {
                writeln!(out, "{}", as_json_line(line, count, span))?;
            }
        } else {
            let (from, until) = (span.from.as_secs_f64(), span.until.as_secs_f64());
            writeln!(out, "{}, {from:.3} s to {until:.3} s:", visible(whom))?;
            let width = counts.iter().map(|(line, _)| line.name.chars().count()).max().unwrap_or(0);
            for (line, count) in &counts {
                let (amount, note) = as_text(line, *count, span, &counts);
                let text = format!("{amount:>20}  {:<width$}  {note}", visible(&line.name).to_string());
                writeln!(out, "{}", text.trim_end())?;
            }
        }
        out.flush()
    }
}

/// The amount, and what is to be said of it.
fn as_text(
    line: &CountLine,
    count: Option<&Counted>,
    span: Span,
    all: &[(&CountLine, Option<&Counted>)],
) -> (String, String) {
    let Some(count) = count else {
        return ("-".to_owned(), line.missing.unwrap_or("could not be read").to_owned());
    };
    let value = match count.scaled() {
        Ok(value) => value,
        Err(_) if ran_never(count) => return ("0".to_owned(), "nothing ran meanwhile".to_owned()),
        Err(reason) => return ("-".to_owned(), reason.to_string()),
    };
    let seconds = span.until.saturating_sub(span.from).as_secs_f64();
    let per_second = if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
    let (amount, mut note) = if is_clock(&line.name) {
        let ms = format!("{}.{:02} ms", grouped(value / 1_000_000), value / 10_000 % 100);
        (ms, format!("{:.2} CPUs", per_second / 1e9))
    } else {
        let cycles = all
            .iter()
            .find(|(line, _)| line.name == "cycles")
            .and_then(|(_, cycles)| cycles.as_ref()?.scaled().ok());
        let per_cycle = cycles.filter(|cycles| *cycles > 0 && line.name == "instructions");
        let note = match per_cycle {
            Some(cycles) => format!("{:.2} per cycle", value as f64 / cycles as f64),
            None => format!("{} /s", rate(per_second)),
        };
        (grouped(value), note)
    };
    if count.is_estimated() {
        let percent = count.running_ns as f64 / count.enabled_ns as f64 * 100.0;
        note += &format!("  estimated: counted for {percent:.0} % of the time");
    }
    (amount, note)
}

fn as_json_line(line: &CountLine, count: Option<&Counted>, span: Span) -> serde_json::Value {
    let unit = if is_clock(&line.name) { "ns" } else { "events" };
    let head = json!({
        "event": line.name, "unit": unit, "from_s": span.from.as_secs_f64(), "to_s": span.until.as_secs_f64(),
    });
    let rest = match (count, count.map(Counted::scaled)) {
        (Some(count), Some(Ok(value))) => json!({
            "value": value, "estimated": count.is_estimated(), "counted": count.value,
            "enabled_ns": count.enabled_ns, "running_ns": count.running_ns,
        }),
        (Some(count), Some(Err(_))) if ran_never(count) => json!({
            "value": 0, "estimated": false, "counted": 0, "enabled_ns": 0, "running_ns": 0,
        }),
        (_, Some(Err(reason))) => json!({ "value": null, "reason": reason.to_string() }),
        _ => json!({ "value": null, "reason": line.missing.unwrap_or("could not be read") }),
    };
    let (serde_json::Value::Object(mut head), serde_json::Value::Object(rest)) = (head, rest) else {
        return serde_json::Value::Null;
    };
    head.extend(rest);
    head.into()
}

/// No thread of a process ran, so there was nothing to count.
fn ran_never(count: &Counted) -> bool {
    count.enabled_ns == 0
}

/// A rate in three digits.
fn rate(per_second: f64) -> String {
    let (scaled, unit) = match per_second {
        rate if rate >= 1e9 => (rate / 1e9, " G"),
        rate if rate >= 1e6 => (rate / 1e6, " M"),
        rate if rate >= 1e3 => (rate / 1e3, " k"),
        rate => (rate, ""),
    };
    let decimals = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(as_json: bool, counts: &[(u64, u64, u64)]) -> String {
        let names = ["task-clock", "cycles", "instructions", "page-faults", "LLC-loads"];
        let mut lines: Vec<CountLine> = names.iter().map(|name| CountLine::of(name)).collect();
        lines[4].missing = Some("not on this machine");
        let mut printer = StatPrinter::new(Vec::new(), as_json, "process 7\u{1b}".to_owned(), lines);
        let sums = counts
            .iter()
            .map(|(value, enabled_ns, running_ns)| Counted {
                value: *value,
                enabled_ns: *enabled_ns,
                running_ns: *running_ns,
            })
            .collect();
        let now = GroupReading { sums, ..GroupReading::default() };
        let span = Span { from: Duration::from_secs(1), until: Duration::from_secs(3) };
        let before = GroupReading {
            sums: vec![Counted { value: 1, ..Counted::default() }; 4],
            ..GroupReading::default()
        };
        printer.counts(span, &now, &before).unwrap();
        String::from_utf8(printer.out).unwrap()
    }

    const COUNTS: [(u64, u64, u64); 4] =
        [(1_234_567_891, 9, 9), (1_000_001, 100, 50), (3_000_001, 100, 50), (5, 9, 0)];

    #[test]
    fn text_has_amounts_rates_and_what_was_estimated() {
        let text = printed(false, &COUNTS);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "process 7\\u{1b}, 1.000 s to 3.000 s:");
        assert_eq!(lines[1], "1,234.56 ms  task-clock    0.62 CPUs");
        assert_eq!(lines[2], "2,000,000  cycles        1.00 M /s  estimated: counted for 50 % of the time");
        assert_eq!(
            lines[3],
            "6,000,000  instructions  3.00 per cycle  estimated: counted for 50 % of the time"
        );
        assert_eq!(lines[4], "-  page-faults   not counted: the processor had no counter for it");
        assert_eq!(lines[5], "-  LLC-loads     not on this machine");
        assert_eq!((grouped(0), grouped(999), grouped(1000)), ("0".into(), "999".into(), "1,000".into()));
        assert_eq!((rate(0.5), rate(45.67), rate(123_456.0)), ("0.50".into(), "45.7".into(), "123 k".into()));
    }

    #[test]
    fn what_slept_all_the_time_has_counts_of_zero() {
        let slept = [(1, 0, 0); 4];
        let text = printed(false, &slept);
        assert!(text.lines().nth(1).unwrap().ends_with(" 0  task-clock    nothing ran meanwhile"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(printed(true, &slept).lines().next().unwrap()).unwrap();
        assert_eq!((&json["value"], &json["estimated"]), (&0.into(), &false.into()));
    }

    #[test]
    fn json_tells_what_was_counted_and_what_was_not() {
        let text = printed(true, &COUNTS);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!((&lines[0]["value"], &lines[0]["unit"]), (&1_234_567_890u64.into(), &"ns".into()));
        assert_eq!((&lines[1]["value"], &lines[1]["counted"]), (&2_000_000u64.into(), &1_000_000u64.into()));
        assert_eq!((&lines[1]["estimated"], &lines[0]["estimated"]), (&true.into(), &false.into()));
        assert_eq!((&lines[0]["from_s"], &lines[0]["to_s"]), (&1.0.into(), &3.0.into()));
        assert!(lines[3]["value"].is_null() && lines[3]["reason"].as_str().unwrap().contains("no counter"));
        assert_eq!(lines[4]["reason"], "not on this machine");
    }
}
