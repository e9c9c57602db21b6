//! Encodes a recording as the bytes of an output.

use std::io::{self, Write};

use formats::{EncodeOptions, registry};
use metrics::{MetricsSnapshot, json_report, text_report};
use recording::{Mode, SymbolizedRecording};

use super::kind::OutputKind;
use super::profiles::{self, modes};

/// The data of outputs.
pub(crate) struct Contents<'a> {
    pub(crate) recording: &'a SymbolizedRecording,
    pub(crate) metrics: Option<&'a MetricsSnapshot>,
}

/// Writes an output. Validation refuses an output without its profile, so a missing profile is a defect and becomes an
/// error.
pub(crate) fn encode(kind: OutputKind, contents: &Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let missing = || io::Error::other("the profile was not taken");
    match kind {
        OutputKind::PmuReport => out.write_all(text_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::PmuJson => out.write_all(json_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::Recording => recording::file::write_symbolized(contents.recording, out).map(drop),
        _ => {
            let (mode, format) = what(kind, &modes(contents.recording)).ok_or_else(missing)?;
            encode_profile(contents.recording, mode, format, out)
        }
    }
}

/// Writes the profile of one mode in a format of the registry.
pub(crate) fn encode_profile(
    symbolized: &SymbolizedRecording,
    mode: Mode,
    format: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile =
        profiles::profile(symbolized, mode).ok_or_else(|| io::Error::other("the profile was not taken"))?;
    let encoder =
        registry::by_name(format).ok_or_else(|| io::Error::other(format!("no format is named {format}")))?;
    encoder.encode(&profile, &EncodeOptions { value: None, title: title(mode).to_owned() }, out)
}

/// The mode and the format of an output. Folded stacks and flame graphs show the first mode.
fn what(kind: OutputKind, modes: &[Mode]) -> Option<(Mode, &'static str)> {
    let of = |mode: Mode| modes.contains(&mode).then_some(mode);
    Some(match kind {
        OutputKind::CpuProfile => (of(Mode::OnCpu)?, "pprof"),
        OutputKind::OffCpuProfile => (of(Mode::OffCpu)?, "pprof"),
        OutputKind::WallProfile => (of(Mode::Wall)?, "pprof"),
        OutputKind::Folded => (*modes.first()?, "folded"),
        OutputKind::FlameGraph => (*modes.first()?, "flamegraph"),
        OutputKind::PmuReport | OutputKind::PmuJson | OutputKind::Recording => return None,
    })
}

fn title(mode: Mode) -> &'static str {
    match mode {
        Mode::OffCpu => "Off-CPU time",
        Mode::Wall => "Wall-clock time",
        _ => "On-CPU time",
    }
}
