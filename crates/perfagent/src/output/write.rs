//! Writes all outputs of a capture, or of one interval.

use std::io::{self, Write as _};

use jiff::Timestamp;
use profile::Profile;
use recording::{Mode, SymbolizedRecording};

use super::destination::{OpenFile, OpenTarget};
use super::drawing::Drawing;
use super::encode::{Contents, Encoded, encode, encode_profile, encode_written};
use super::file::OutputFile;
use super::kind::OutputKind;
use super::profiles::{Profiles, words};
use super::publish::{Finished, publish_all};
use super::report::OutputReport;
use super::target::FileTarget;
use super::temporary::TemporaryFiles;
use crate::{CancelToken, Error};

/// The outputs of a capture.
pub(crate) struct Outputs {
    targets: Vec<(OutputKind, OpenTarget)>,
    drawing: Drawing,
    temporary: TemporaryFiles,
}

impl Outputs {
    pub(crate) fn new(
        targets: Vec<(OutputKind, OpenTarget)>,
        drawing: Drawing,
        temporary: TemporaryFiles,
    ) -> Self {
        Self { targets, drawing, temporary }
    }

    /// How its flame graphs and folded stacks are drawn.
    pub(crate) fn drawing(&self) -> Drawing {
        self.drawing
    }

    /// Writes all outputs. `give_up` ends the wait for readers of FIFOs.
    pub(crate) fn write(self, contents: &Contents<'_>, give_up: &CancelToken) -> Vec<OutputReport> {
        let words = words(contents.profiles.recording());
        let targets = self.targets.into_iter().flat_map(|(kind, target)| match target {
            OpenTarget::File(file) => of_modes(kind, file, &words),
            sink @ OpenTarget::Sink(_) => vec![(Encoded { kind, mode: None }, sink)],
        });
        write_all(targets.collect(), contents, &self.temporary, give_up)
    }

    /// The files to write for each interval of a capture that is cut.
    pub(crate) fn of_intervals(&self) -> IntervalOutputs {
        let file = |(kind, target): &(OutputKind, OpenTarget)| match target {
            OpenTarget::File(file) if kind.is_of_intervals() => Some((*kind, file.clone())),
            _ => None,
        };
        IntervalOutputs {
            files: self.targets.iter().filter_map(file).collect(),
            drawing: self.drawing,
            temporary: self.temporary.clone(),
        }
    }

    /// The outputs of the whole capture, without those of its intervals.
    pub(crate) fn of_capture(self) -> Self {
        let targets = self.targets.into_iter().filter(|(kind, _)| !kind.is_of_intervals()).collect();
        Self { targets, ..self }
    }
}

/// The files to write for each interval.
pub(crate) struct IntervalOutputs {
    files: Vec<(OutputKind, OpenFile)>,
    drawing: Drawing,
    temporary: TemporaryFiles,
}

impl IntervalOutputs {
    /// Writes the files of one interval. Their names contain its start time.
    pub(crate) fn write(&self, profiles: &Profiles<'_>, give_up: &CancelToken) -> Vec<OutputReport> {
        let symbolized = profiles.recording();
        let time = interval_time(symbolized.recording.span.start_ns);
        let words = words(symbolized);
        let targets = self.files.iter().flat_map(|(kind, file)| of_modes(*kind, file.clone(), &words));
        let targets = targets.map(|(output, target)| match target {
            OpenTarget::File(file) => (output, OpenTarget::File(file.of_interval(&time))),
            sink @ OpenTarget::Sink(_) => (output, sink),
        });
        let contents = Contents { profiles, metrics: None, drawing: self.drawing };
        write_all(targets.collect(), &contents, &self.temporary, give_up)
    }
}

/// The files of an output: one for each profile that it can show, if it shows one and there are several.
fn of_modes(kind: OutputKind, file: OpenFile, words: &[(Mode, String)]) -> Vec<(Encoded, OpenTarget)> {
    let may_show = |mode: Mode| match kind {
        OutputKind::Folded | OutputKind::FlameGraph | OutputKind::Html => true,
        OutputKind::CpuProfile => matches!(mode, Mode::Event | Mode::FurtherEvent(_)),
        _ => false,
    };
    let shown: Vec<_> = words.iter().filter(|(mode, _)| may_show(*mode)).collect();
    let of_mode = |(mode, word): &&(Mode, String)| {
        let target = OpenTarget::File(file.of_mode(word)?);
        Some((Encoded { kind, mode: Some(*mode) }, target))
    };
    let several = if shown.len() > 1 { shown.iter().map(of_mode).collect() } else { None };
    several.unwrap_or_else(|| vec![(Encoded { kind, mode: None }, OpenTarget::File(file))])
}

/// Start time of an interval in UTC, `YYYYMMDDTHHMMSS.mmmZ`: local time passes some hours twice.
pub(super) fn interval_time(start_ns: i64) -> String {
    let start = Timestamp::from_nanosecond(start_ns.into()).unwrap_or_default();
    start.strftime("%Y%m%dT%H%M%S.%3fZ").to_string()
}

fn write_all(
    targets: Vec<(Encoded, OpenTarget)>,
    contents: &Contents<'_>,
    temporary: &TemporaryFiles,
    give_up: &CancelToken,
) -> Vec<OutputReport> {
    let names: Vec<_> = targets.iter().map(|(output, target)| (output.kind, target.describe())).collect();
    let written = targets.into_iter().map(|(output, target)| {
        let mut file = OutputFile::begin(target, temporary, give_up)?;
        encode(output, contents, &mut file)?;
        file.finish()
    });
    let finished = publish_all(written.collect());
    names.into_iter().zip(finished).map(|((kind, which), finished)| report(kind, which, finished)).collect()
}

fn report(kind: OutputKind, which: String, finished: io::Result<Finished>) -> OutputReport {
    match finished {
        Ok(finished) => OutputReport { kind, path: finished.path, bytes: finished.bytes, result: Ok(()) },
        Err(source) => {
            OutputReport { kind, path: None, bytes: 0, result: Err(Error::Output { which, source }) }
        }
    }
}

/// Writes the profile of one mode of a recording in a format of the registry. Returns the number of bytes.
pub(crate) fn write_profile(
    symbolized: &SymbolizedRecording,
    mode: Mode,
    format: &str,
    drawing: Drawing,
    target: FileTarget,
    temporary: &TemporaryFiles,
) -> Result<u64, Error> {
    write_with(target, temporary, |file| {
        encode_profile(&Profiles::of(symbolized), mode, format, drawing, file)
    })
}

/// Writes one value of a profile that was written already in a format. Returns the number of bytes.
pub(crate) fn write_written(
    profile: &Profile,
    (format, value): (&str, Option<usize>),
    drawing: Drawing,
    target: FileTarget,
    temporary: &TemporaryFiles,
) -> Result<u64, Error> {
    write_with(target, temporary, |file| encode_written(profile, format, value, drawing, file))
}

/// Writes bytes. Returns their number.
pub(crate) fn write_bytes(
    bytes: &[u8],
    target: FileTarget,
    temporary: &TemporaryFiles,
) -> Result<u64, Error> {
    write_with(target, temporary, |file| file.write_all(bytes))
}

fn write_with(
    target: FileTarget,
    temporary: &TemporaryFiles,
    write: impl FnOnce(&mut OutputFile) -> io::Result<()>,
) -> Result<u64, Error> {
    let which = target.describe();
    let written = OpenFile::open(&target)
        .and_then(|file| OutputFile::begin(OpenTarget::File(file), temporary, &CancelToken::new()))
        .and_then(|mut file| write(&mut file).map(|()| file))
        .and_then(OutputFile::finish);
    let finished = publish_all(vec![written]).into_iter().next();
    let finished = finished.unwrap_or_else(|| Err(io::Error::other("nothing was written")));
    finished.map(|finished| finished.bytes).map_err(|source| Error::Output { which, source })
}
