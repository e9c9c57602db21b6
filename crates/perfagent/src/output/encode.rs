//! Encodes a recording as the bytes of an output.

use std::io::{self, Write};

use formats::{EncodeOptions, registry};
use metrics::{MetricsSnapshot, json_report, text_report};
use profile::Profile;
use recording::Mode;

use super::drawing::Drawing;
use super::kind::OutputKind;
use super::profiles::{Profiles, modes};
use super::title::{subtitle, subtitle_of_profile, title, title_of_profile};
use super::warnings::warnings;

/// The data of outputs.
pub(crate) struct Contents<'a> {
    pub(crate) profiles: &'a Profiles<'a>,
    pub(crate) metrics: Option<&'a MetricsSnapshot>,
    pub(crate) drawing: Drawing,
}

/// An output to encode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    pub(crate) kind: OutputKind,
    /// The profile that folded stacks and flame graphs show, and the one of an event in pprof; by default the first one.
    pub(crate) mode: Option<Mode>,
}

/// Writes an output. Validation refuses an output without its profile, so a missing profile is a defect and becomes an
/// error.
pub(crate) fn encode(output: Encoded, contents: &Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let missing = || io::Error::other("the profile was not taken");
    let recording = contents.profiles.recording();
    match output.kind {
        OutputKind::PmuReport => out.write_all(text_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::PmuJson => out.write_all(json_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::LockReport => {
            let report = report::locks(recording).ok_or_else(missing)?;
            out.write_all(report::lock_text(&report).as_bytes())
        }
        OutputKind::Recording => recording::file::write_symbolized(recording, out).map(drop),
        _ => {
            let (mode, format) = what(output, &modes(recording)).ok_or_else(missing)?;
            encode_profile(contents.profiles, mode, format, contents.drawing, out)
        }
    }
}

/// Writes the profile of one mode in a format of the registry.
pub(crate) fn encode_profile(
    profiles: &Profiles<'_>,
    mode: Mode,
    format: &str,
    drawing: Drawing,
    out: &mut dyn Write,
) -> io::Result<()> {
    let symbolized = profiles.recording();
    let profile = profiles.get(mode).ok_or_else(|| io::Error::other("the profile was not taken"))?;
    let encoder =
        registry::by_name(format).ok_or_else(|| io::Error::other(format!("no format is named {format}")))?;
    let options = EncodeOptions {
        value: None,
        title: title(symbolized, mode),
        subtitle: subtitle(symbolized, mode),
        warnings: if encoder.tells_warnings() { warnings(symbolized) } else { Vec::new() },
        merge: drawing.merge,
        inverted: drawing.inverted,
    };
    encoder.encode(&profile, &options, out)
}

/// Writes one value of a profile that was written already, or with `None` the value that it shows by default, in a format of the registry.
pub(crate) fn encode_written(
    profile: &Profile,
    format: &str,
    value: Option<usize>,
    drawing: Drawing,
    out: &mut dyn Write,
) -> io::Result<()> {
    let encoder =
        registry::by_name(format).ok_or_else(|| io::Error::other(format!("no format is named {format}")))?;
    let mut options =
        EncodeOptions { value, merge: drawing.merge, inverted: drawing.inverted, ..EncodeOptions::default() };
    let value = options.value_index(profile);
    options.title = title_of_profile(profile, value);
    options.subtitle = subtitle_of_profile(profile, value);
    encoder.encode(profile, &options, out)
}

/// The mode and the format of an output.
fn what(output: Encoded, modes: &[Mode]) -> Option<(Mode, &'static str)> {
    let of = |mode: Mode| modes.contains(&mode).then_some(mode);
    let shown = output.mode.or_else(|| modes.first().copied());
    Some(match output.kind {
        OutputKind::CpuProfile => {
            (output.mode.and_then(of).or_else(|| of(Mode::OnCpu)).or_else(|| of(Mode::Event))?, "pprof")
        }
        OutputKind::OffCpuProfile => (of(Mode::OffCpu)?, "pprof"),
        OutputKind::WallProfile => (of(Mode::Wall)?, "pprof"),
        OutputKind::LockProfile => (of(Mode::Locks)?, "pprof"),
        OutputKind::HeapProfile => (of(Mode::Heap)?, "pprof"),
        OutputKind::Folded => (of(shown?)?, "folded"),
        OutputKind::FlameGraph => (of(shown?)?, "flamegraph"),
        OutputKind::Html => (of(shown?)?, "html"),
        OutputKind::PmuReport
        | OutputKind::PmuJson
        | OutputKind::LockReport
        | OutputKind::Recording
        | OutputKind::PerfData => return None,
    })
}
