//! The words above a picture: what it shows, of which target, and when that was captured.

use std::time::Duration;

use formats::amount;
use jiff::Timestamp;
use profile::{Profile, ValueType};
use recording::{Event, Mode, SymbolizedRecording};

use super::profiles::ledger;

/// What is shown, of which target, on which machine.
pub(super) fn title(symbolized: &SymbolizedRecording, mode: Mode) -> String {
    let what = match symbolized.recording.settings.event_of(mode) {
        Some(event) => match event.summed() {
            Some(summed) => format!("{} of {}", summed.name, event.kind()),
            None => event.kind().to_owned(),
        },
        None => shown(mode).to_owned(),
    };
    let origin = &symbolized.recording.origin;
    let target = if origin.target.is_empty() { String::new() } else { format!(": {}", origin.target) };
    let host = if origin.host.is_empty() { String::new() } else { format!(" on {}", origin.host) };
    format!("{what}{target}{host}")
}

/// When it was captured, for how long, at which rate, and how much there is.
pub(super) fn subtitle(symbolized: &SymbolizedRecording, mode: Mode) -> String {
    let recording = &symbolized.recording;
    let start = Timestamp::from_nanosecond(recording.span.start_ns.into()).unwrap_or_default();
    let figure =
        |key: &str| ledger(symbolized, mode).iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let mut facts = vec![
        start.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        format!("{:.1} s", Duration::from_nanos(recording.span.duration_ns).as_secs_f64()),
    ];
    match recording.settings.event_of(mode) {
        Some(event) => facts.extend(every(event)),
        None if !matches!(mode, Mode::OffCpu | Mode::Heap) => {
            facts.push(format!("{} Hz", recording.settings.sample_rate_hz))
        }
        None => {}
    }
    let unit = match mode {
        Mode::Heap => "allocations",
        _ if mode.sampled_event().is_some() => "samples",
        _ => "intervals",
    };
    facts.extend(figure("samples").map(|count| format!("{count} {unit}")));
    facts.extend(figure("rooted_pct").map(|share| format!("{share} % rooted")));
    facts.join(", ")
}

/// What a sample stands for, unless that is a single event.
fn every(event: &Event) -> Option<String> {
    let period = event.period.filter(|period| *period > 1)?;
    let amount = amount(period, &ValueType::new(event.kind(), event.period_unit.name()));
    Some(format!("a sample each {amount}"))
}

fn shown(mode: Mode) -> &'static str {
    match mode {
        Mode::OffCpu => "Off-CPU time",
        Mode::Wall => "Wall-clock time",
        Mode::Locks => "Waits for locks",
        Mode::Heap => "Memory in use",
        _ => "On-CPU time",
    }
}

/// What the value of a written profile is: of our own profiles the time that they show, of others the name of the value.
pub(super) fn title_of_profile(profile: &Profile, value: usize) -> String {
    let modes = [Mode::OnCpu, Mode::OffCpu, Mode::Wall, Mode::Locks];
    let mode = modes.into_iter().find(|mode| comment(profile, "perf-agent.mode") == Some(mode.name()));
    let kind = || profile.sample_types.get(value).map(|of| of.kind.clone()).unwrap_or_default();
    mode.map_or_else(kind, |mode| shown(mode).to_owned())
}

/// When it was captured and for how long, if it tells, and how much it has of the value.
pub(super) fn subtitle_of_profile(profile: &Profile, value: usize) -> String {
    let mut facts = Vec::new();
    if let Some(start) =
        Timestamp::from_nanosecond(profile.time_ns.into()).ok().filter(|_| profile.time_ns > 0)
    {
        facts.push(start.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    }
    if let Some(ns) = u64::try_from(profile.duration_ns).ok().filter(|ns| *ns > 0) {
        facts.push(format!("{:.1} s", Duration::from_nanos(ns).as_secs_f64()));
    }
    facts.extend(comment(profile, "perf-agent.rate_hz").map(|rate| format!("{rate} Hz")));
    if let Some(unit) = profile.sample_types.get(value) {
        let sum = profile.samples.iter().filter_map(|sample| sample.values.get(value)).fold(0, add);
        facts.push(amount(sum, unit));
    }
    facts.extend(comment(profile, "perf-agent.rooted_pct").map(|share| format!("{share} % rooted")));
    facts.join(", ")
}

fn add(sum: u64, value: &i64) -> u64 {
    sum.saturating_add(u64::try_from(*value).unwrap_or(0))
}

/// The value of a comment `KEY=VALUE`.
fn comment<'a>(profile: &'a Profile, key: &str) -> Option<&'a str> {
    profile.comments.iter().find_map(|comment| comment.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use profile::Builder;
    use recording::{FrozenLedger, Origin, Recording, Settings, Span, Unit};

    use super::*;

    #[test]
    fn target_host_time_rate_and_samples_are_told() {
        let recording = Recording {
            settings: Settings { sample_rate_hz: 99, ..Settings::default() },
            span: Span { start_ns: 1_700_000_000_000_000_000, duration_ns: 10_040_000_000 },
            origin: Origin { host: "web-1".to_owned(), target: "pid 7 (nginx)".to_owned() },
            ..Recording::default()
        };
        let entries = [("samples", "990"), ("rooted_pct", "100.00")];
        let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let ledgers = vec![FrozenLedger { mode: Mode::OnCpu, entries }];
        let mut symbolized = SymbolizedRecording { recording, ledgers, ..SymbolizedRecording::default() };
        assert_eq!(title(&symbolized, Mode::OnCpu), "On-CPU time: pid 7 (nginx) on web-1");
        assert_eq!(
            subtitle(&symbolized, Mode::OnCpu),
            "2023-11-14 22:13:20 UTC, 10.0 s, 99 Hz, 990 samples, 100.00 % rooted"
        );
        assert_eq!(subtitle(&symbolized, Mode::OffCpu), "2023-11-14 22:13:20 UTC, 10.0 s");
        symbolized.recording.origin = Origin::default();
        assert_eq!(title(&symbolized, Mode::OffCpu), "Off-CPU time");
    }

    #[test]
    fn an_event_is_told_by_its_name_and_its_period() {
        let event = Event::sampled("software/page-faults", "page-faults", 16, Unit::Count);
        let settings = Settings { event: Some(event), cpu_profile: true, ..Settings::default() };
        let mut recording = Recording { settings, ..Recording::default() };
        recording.origin.target = "pid 7".to_owned();
        let symbolized = SymbolizedRecording { recording, ..SymbolizedRecording::default() };
        assert_eq!(title(&symbolized, Mode::Event), "page-faults: pid 7");
        let about = subtitle(&symbolized, Mode::Event);
        assert!(about.ends_with("0.0 s, a sample each 16 page-faults"), "{about}");
        let value = ValueType::new("page-faults", "count");
        let comments = vec!["perf-agent.mode=event".to_owned()];
        let profile = Builder::new(std::slice::from_ref(&value), value.clone(), 16).finish(0, 0, comments);
        assert_eq!(title_of_profile(&profile, 0), "page-faults");
    }

    #[test]
    fn a_written_profile_tells_what_it_knows() {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let mut builder = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10);
        let leaf = builder.synthetic("f");
        builder.add(Vec::new(), vec![leaf], &[3, 1_500_000_000]);
        let comments = ["perf-agent.mode=on-cpu", "perf-agent.rate_hz=99"].map(str::to_owned).to_vec();
        let mut profile = builder.finish(1_700_000_000_000_000_000, 2_000_000_000, comments);
        assert_eq!(title_of_profile(&profile, 1), "On-CPU time");
        assert_eq!(subtitle_of_profile(&profile, 1), "2023-11-14 22:13:20 UTC, 2.0 s, 99 Hz, 1.500 s");
        (profile.comments, profile.time_ns, profile.duration_ns) = (Vec::new(), 0, 0);
        assert_eq!(title_of_profile(&profile, 0), "samples");
        assert_eq!(subtitle_of_profile(&profile, 0), "3 samples");
    }
}
