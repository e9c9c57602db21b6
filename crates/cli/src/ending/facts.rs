//! One line of facts about each profile: what was captured, how complete it is.

use std::time::Duration;

use perfagent::model::Unit;
use perfagent::{Ledger, Mode};

/// The line of a profile. `target`: whose profile it is; `early`: why the capture ended before its time.
pub fn line(ledger: &Ledger, target: &str, early: Option<&str>) -> String {
    let mut facts = vec![target.to_owned(), length(ledger.elapsed)];
    if ledger.mode.has_stacks() {
        let (what, spent_ns) = match ledger.mode {
            Mode::OnCpu | Mode::Event | Mode::FurtherEvent(_) => ("sample", None),
            Mode::Heap => ("allocation", None),
            Mode::OffCpu => ("interval", Some(ledger.off_cpu_ns)),
            Mode::Locks => ("wait", Some(ledger.lock_ns)),
            _ => ("interval", None),
        };
        let what = if ledger.samples == 1 { what.to_owned() } else { format!("{what}s") };
        let spent = spent_ns
            .map(Duration::from_nanos)
            .map(|spent| format!(" of {} in all", length(spent)))
            .unwrap_or_default();
        facts.push(format!("{} {what}{spent}{}", ledger.samples, each(ledger)));
        facts.extend(ledger.rooted_pct().map(|share| format!("{} % rooted", percent(share))));
        facts.extend(ledger.symbolized_pct().map(|share| format!("{} % named", percent(share))));
        let by_start = ledger.function_start_pct().filter(|share| *share > 0.0);
        facts.extend(by_start.map(|share| format!("{} % by function start", percent(share))));
        facts.push(format!("{} lost", ledger.lost()));
    } else {
        facts.push(format!("{} processes", ledger.processes));
    }
    facts.extend(early.map(|why| format!("ended early: {why}")));
    let title = ledger.sampled.as_ref().map_or(title(ledger.mode), |event| event.kind());
    format!("{title}: {}", facts.join(", "))
}

/// What a sample of an event stands for, unless that is a single occurrence.
fn each(ledger: &Ledger) -> String {
    let Some(event) = ledger.sampled.as_ref() else { return String::new() };
    match (event.period, event.period_unit) {
        (None | Some(0 | 1), _) => String::new(),
        (Some(period), Unit::Nanoseconds) => format!(" of {:?} each", Duration::from_nanos(period)),
        (Some(period), _) => format!(" of {period} each"),
    }
}

/// The name of a mode at the begin of a line.
pub fn title(mode: Mode) -> &'static str {
    match mode {
        Mode::OnCpu => "on-CPU",
        Mode::OffCpu => "off-CPU",
        Mode::Wall => "wall-clock",
        Mode::Locks => "locks",
        Mode::Heap => "heap",
        _ => "metrics",
    }
}

/// At most two decimals: 100, 99.98, 7.5.
fn percent(share: f64) -> String {
    let text = format!("{share:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn length(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0 if time < Duration::from_millis(100) => format!("{:.1} ms", seconds * 1e3),
        0..10 => format!("{seconds:.2} s"),
        10..600 => format!("{seconds:.1} s"),
        whole => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use perfagent::model::Event;

    use super::*;

    #[test]
    fn times_and_shares_are_short() {
        let lengths = [0, 4_500_000, 250_000_000, 9_990_000_000, 10_040_000_000, 3_661_000_000_000];
        let lengths = lengths.map(|ns| length(Duration::from_nanos(ns)));
        assert_eq!(lengths, ["0.0 ms", "4.5 ms", "0.25 s", "9.99 s", "10.0 s", "61 min 1 s"]);
        assert_eq!([100.0, 99.98, 7.5, 0.0].map(percent), ["100", "99.98", "7.5", "0"]);
    }

    #[test]
    fn each_kind_of_profile_has_its_facts() {
        let mut ledger = Ledger::default();
        (ledger.samples, ledger.lost_busy, ledger.elapsed) = (990, 2, Duration::from_secs(10));
        let said = line(&ledger, "pid 7 (nginx)", Some("the targets ended"));
        assert_eq!(
            said,
            "on-CPU: pid 7 (nginx), 10.0 s, 990 samples, 2 lost, ended early: the targets ended"
        );
        let sampled = |period, unit| Some(Event::sampled("software/x", "x", period, unit));
        let of_event = |period, unit| {
            let mut ledger = ledger.clone();
            (ledger.mode, ledger.sampled) = (Mode::Event, sampled(period, unit));
            line(&ledger, "pid 7", None)
        };
        assert_eq!(of_event(1, Unit::Count), "x: pid 7, 10.0 s, 990 samples, 2 lost");
        assert_eq!(of_event(16, Unit::Count), "x: pid 7, 10.0 s, 990 samples of 16 each, 2 lost");
        assert_eq!(
            of_event(1_500_000, Unit::Nanoseconds),
            "x: pid 7, 10.0 s, 990 samples of 1.5ms each, 2 lost"
        );
        (ledger.mode, ledger.off_cpu_ns) = (Mode::OffCpu, 2_500_000_000);
        ledger.walks[0] = 1;
        let said = line(&ledger, "system-wide", None);
        assert_eq!(
            said,
            "off-CPU: system-wide, 10.0 s, 990 intervals of 2.50 s in all, 100 % rooted, 2 lost"
        );
        (ledger.shown.named, ledger.shown.by_start, ledger.shown.unmapped) = (3, 1, 4);
        let said = line(&ledger, "system-wide", None);
        assert!(said.contains(", 37.5 % named, 12.5 % by function start, 2 lost"), "{said}");
        (ledger.mode, ledger.processes) = (Mode::Pmu, 3);
        assert_eq!(line(&ledger, "pid 7", None), "metrics: pid 7, 10.0 s, 3 processes");
    }
}
