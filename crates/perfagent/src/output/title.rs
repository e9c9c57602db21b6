//! The words above a picture: what it shows, of which target, and when that was captured.

use std::time::Duration;

use jiff::Timestamp;
use recording::{Mode, SymbolizedRecording};

use super::profiles::ledger;

/// What is shown, of which target, on which machine.
pub(super) fn title(symbolized: &SymbolizedRecording, mode: Mode) -> String {
    let what = match mode {
        Mode::OffCpu => "Off-CPU time",
        Mode::Wall => "Wall-clock time",
        _ => "On-CPU time",
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
    if mode != Mode::OffCpu {
        facts.push(format!("{} Hz", recording.settings.sample_rate_hz));
    }
    let unit = if mode == Mode::OnCpu { "samples" } else { "intervals" };
    facts.extend(figure("samples").map(|count| format!("{count} {unit}")));
    facts.extend(figure("rooted_pct").map(|share| format!("{share} % rooted")));
    facts.join(", ")
}

#[cfg(test)]
mod tests {
    use recording::{FrozenLedger, Origin, Recording, Settings, Span};

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
}
